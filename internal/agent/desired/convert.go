package desired

import (
	"maps"
	"slices"
	"strconv"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	// Op is add, replace, remove or test.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901) to what it is about.
	Path string `json:"path"`
	// Value is what is there or comes there; it counts for nothing in a remove.
	Value any `json:"value"`
}

// Convert returns the patch that makes triggers of type external-push of those of type kedify-http,
// each with its marks, and changes nothing else. There is none where nothing is to be converted.
// The patch fits this version of the object only, because it knows triggers by their index. old is the
// version before, or nil: triggers that are written anew keep the names of their HTTPScaledObjects.
// address is where our scaler listens.
func Convert(scaled, old *apis.ScaledObject, address string) []Operation {
	var patch []Operation
	for _, one := range ours(scaled, old, address) {
		if one.standing != trigger.Unconverted {
			continue
		}
		path := "/spec/triggers/" + strconv.Itoa(one.index)
		added := trigger.ConversionMetadata(one.trigger.Metadata, address, one.name)
		patch = append(patch, Operation{"replace", path + "/type", trigger.TypePush})
		if one.trigger.Metadata == nil {
			patch = append(patch, Operation{"add", path + "/metadata", added})
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(added)) {
			patch = append(patch, Operation{"add", path + "/metadata/" + key, added[key]})
		}
	}
	return patch
}
