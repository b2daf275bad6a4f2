package gatewayapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// anyNamespace is the text of Namespaces that contains all namespaces.
const anyNamespace = "*"

// errForeignNamespace means that a Rollout references a route in a namespace that it may not use.
var errForeignNamespace = errors.New("only Rollouts of that namespace may reference routes there")

// Namespaces is the set of namespaces whose routes Rollouts of other namespaces may reference. A Rollout may always
// reference routes of its own namespace. The zero value is empty.
//
// The effect of a Rollout on a route of another namespace is limited anyway: it splits traffic only between its own two
// Services, and only in rules in which the route's owner has listed both of them with their namespace.
type Namespaces struct {
	all   bool
	named []string
}

// String returns the text that UnmarshalText parses.
func (n Namespaces) String() string {
	if n.all {
		return anyNamespace
	}
	return strings.Join(n.named, ",")
}

// MarshalText returns String.
func (n Namespaces) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses comma-separated names; * means all, an empty text none.
func (n *Namespaces) UnmarshalText(text []byte) error {
	*n = Namespaces{}
	for name := range strings.SplitSeq(string(text), ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
		case anyNamespace:
			n.all = true
		default:
			n.named = append(n.named, name)
		}
	}
	return nil
}

// AllNamespaces returns the set of all namespaces.
func AllNamespaces() Namespaces { return Namespaces{all: true} }

// allows reports whether a Rollout of namespace own may reference a route of namespace other.
func (n Namespaces) allows(own, other string) bool {
	return n.all || own == other || slices.Contains(n.named, other)
}

// check returns an error if the Rollout may not reference routes of namespace, as it does in field.
func (n Namespaces) check(request engine.Request, namespace, field string) error {
	if n.allows(request.Rollout.Namespace, namespace) {
		return nil
	}
	return fmt.Errorf("rollout %q: %s is in namespace %q: %w: correct it, or add the namespace to the plugin's flag "+
		"-routeNamespaces", request.Name(), field, namespace, errForeignNamespace)
}
