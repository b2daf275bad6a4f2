package cleanup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// labelInProgress is the default value of the in-progress label.
const labelValue = "in-progress"

// checkRoute finds leftovers on a route.
func (f *finder) route(live *facts.Route) []Leftover {
	metadata, _ := live.Content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[route.Annotation].(string)
	mayName := func(r *facts.Rollout) bool { return f.mayName(r, live) }
	left := Leftover{Object: fmt.Sprintf("%s %s", live.Kind, live.Name)}
	content := live.Content
	var told []string
	entries := route.Entries(text)
	for _, entry := range entries {
		namespace, name, _ := strings.Cut(entry.Rollout, "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		why, isGone := f.gone(key, mayName)
		if !isGone {
			continue
		}
		undone, sorts, err := undo(content, live, entry, f.rollout(key))
		if err != nil {
			continue // the router rejects such a route as well, and reports the error
		}
		content = undone
		left.Sorts = append(left.Sorts, sorts...)
		if entry.Weighted && !slices.Contains(sorts, RouteWeights) {
			why += "; its weights stay, because the stable Service is unknown: set them manually"
		}
		told = append(told, why)
	}
	if text == "" && live.Labels[route.DefaultLabelKey] == labelValue && f.namespace == "" && !f.isNamed(live) {
		content = withoutLabel(content)
		left.Sorts = append(left.Sorts, Label)
		told = append(told, "no Rollout references it, but it has label "+route.DefaultLabelKey+" of the published plugin; its weights stay")
	}
	if len(left.Sorts) == 0 || reflect.DeepEqual(content, live.Content) {
		return nil
	}
	left.Message = strings.Join(told, "; ")
	replaced := *live
	replaced.Content = content
	left.Removal = Removal{Route: &replaced}
	return []Leftover{left}
}

// resetRoute removes the entry of a Rollout from a route, and returns the kinds of leftovers in it. If the Rollout
// exists, its Services are known, and the stable Service gets weight 100.
func undo(content map[string]any, live *facts.Route, entry route.Entry, rollout *facts.Rollout) (map[string]any, []Sort, error) {
	sorts := []Sort{Record}
	if len(entry.Managed) > 0 {
		sorts = append(sorts, ManagedRules)
	}
	if len(entry.Destinations) > 0 {
		sorts = append(sorts, Destinations)
	}
	if rollout != nil && rollout.ServicesError == nil && entry.Weighted {
		undone, _, err := route.Apply(content, route.Intent{
			Kind: live.Kind, Rollout: entry.Rollout, UID: entry.UID, Namespace: rollout.Namespace, Stable: rollout.Stable, Canary: rollout.Canary,
			Weights: &route.Weights{Stable: 100}, ManagedRoutes: &[]route.ManagedRoute{},
		})
		if err == nil {
			return undone, append(sorts, RouteWeights), nil
		}
	}
	undone, err := route.RemoveOwners(content, []string{entry.Rollout})
	return undone, sorts, err
}

// isReferenced reports whether any Rollout may reference a route.
func (f *finder) isNamed(live *facts.Route) bool {
	return slices.ContainsFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return f.mayName(&r, live) })
}

// mayReference reports whether a Rollout references a route, or may reference it because its configuration is invalid.
func (f *finder) mayName(r *facts.Rollout, live *facts.Route) bool {
	if !r.Uses(facts.GatewayRouter) {
		return false
	}
	for _, found := range f.cluster.RoutesOf(r) {
		if found.Kind == live.Kind && found.Name == live.Name {
			return true
		}
	}
	return r.RoutesError != nil
}

// withoutLabel returns a copy of a route without the in-progress label.
func withoutLabel(content map[string]any) map[string]any {
	metadata, _ := content["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	copied := func(from map[string]any, without string) map[string]any {
		to := map[string]any{}
		for key, value := range from {
			if key != without {
				to[key] = value
			}
		}
		return to
	}
	changed, metadata := copied(content, ""), copied(metadata, "")
	metadata["labels"] = copied(labels, route.DefaultLabelKey)
	changed["metadata"] = metadata
	return changed
}
