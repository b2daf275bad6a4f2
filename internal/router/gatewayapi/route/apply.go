package route

import (
	"fmt"
	"strings"
)

// Apply returns object as want asks for it, and what was done to it. The object itself is not modified.
func Apply(object map[string]any, want Intent) (map[string]any, Report, error) {
	return nil, Report{}, fmt.Errorf("%s: %w", want.Kind, ErrUnsupported)
}

// Holds returns nil when the spec of object is exactly as want asks for it, and otherwise an ErrDiffers that says what differs, or the error of Apply.
func Holds(object map[string]any, want Intent) error {
	return fmt.Errorf("%s: %w", want.Kind, ErrUnsupported)
}

// Accepted says whether every parent that the route names and that has reported on it accepts the route in its current generation: conditions Accepted and
// ResolvedRefs True with observedGeneration equal to metadata.generation. If not, the text says what is missing.
func Accepted(object map[string]any) (bool, string) { return false, "unknown" }

// CanaryWeight is the highest weight that the canary Service of want has in a rule in scope that has both Services: its live share of the requests. A weight
// that is absent counts 1, as the API has it.
func CanaryWeight(object map[string]any, want Intent) int32 { return 0 }

// Owners are the Rollouts that are active on object by its annotation, sorted by name.
func Owners(object map[string]any) []Owner { return nil }

// Owner is a Rollout that is active on a route.
type Owner struct {
	// Rollout is "namespace/name".
	Rollout string
	// UID is the Rollout's UID.
	UID string
}

// Error names the owner and the remedy.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s: rollout %q has Service %s in use on this route: give each Rollout Services of its own", ErrOwned.Error(), e.Rollout, strings.Join(e.Services, ", "))
}

// Unwrap makes the error an ErrOwned.
func (e *OwnedError) Unwrap() error { return ErrOwned }
