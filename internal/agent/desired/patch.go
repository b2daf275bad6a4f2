package desired

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	// Op is add, replace, remove or test.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901) to the target location.
	Path string `json:"path"`
	// Value is the value to add, replace or test; a remove ignores it.
	Value any `json:"value"`
}

// Convert returns the patch that changes triggers of a user's type to type external-push, with the keys that
// identify them, and nothing else. It is empty if no trigger needs it. The patch fits this version of the object
// only, because it addresses triggers by index. old is the previous version, or nil: rewritten triggers keep the
// names of their HTTPScaledObjects. address is the address of the agent's scaler.
func Convert(scaled, old *apis.ScaledObject, address string) []Operation {
	var patch []Operation
	for _, managed := range managedTriggers(scaled, old, address) {
		if managed.class != trigger.Unconverted {
			continue
		}
		path := "/spec/triggers/" + strconv.Itoa(managed.index)
		added := trigger.ConversionMetadata(managed.trigger.Type, managed.trigger.Metadata, address, managed.name)
		patch = append(patch, Operation{"replace", path + "/type", trigger.TypePush})
		if managed.trigger.Metadata == nil {
			patch = append(patch, Operation{"add", path + "/metadata", added})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(added)) {
			patch = append(patch, Operation{"add", path + "/metadata/" + key, added[key]})
		}
	}
	return patch
}

// UnconvertedTypes returns the types of the triggers that Convert changes, for a message.
func UnconvertedTypes(scaled *apis.ScaledObject) string {
	var types []string
	for _, candidate := range scaled.Spec.Triggers {
		if trigger.IsUserType(candidate.Type) && !slices.Contains(types, candidate.Type) {
			types = append(types, candidate.Type)
		}
	}
	return strings.Join(types, " and ")
}
