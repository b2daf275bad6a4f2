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
const labelInProgress = "in-progress"

// checkRoute finds leftovers on a route.
func (f *finder) checkRoute(live *facts.Route) []Leftover {
	metadata, _ := live.Content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[route.Annotation].(string)
	mayReference := func(r *facts.Rollout) bool { return f.mayReference(r, live) }
	leftover := Leftover{Object: fmt.Sprintf("%s %s", live.Kind, live.Name)}
	content := live.Content
	var messages []string
	entries := route.Entries(text)
	for _, entry := range entries {
		namespace, name, _ := strings.Cut(entry.Rollout, "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		reason, isStale := f.staleReason(key, mayReference)
		if !isStale {
			continue
		}
		reset, kinds, err := resetRoute(content, live, entry, f.rollout(key))
		if err != nil {
			continue // the router rejects such a route as well, and reports the error
		}
		content = reset
		leftover.Kinds = append(leftover.Kinds, kinds...)
		if entry.Weighted && !slices.Contains(kinds, RouteWeights) {
			reason += "; its weights stay, because the stable Service is unknown: set them manually"
		}
		messages = append(messages, reason)
	}
	if text == "" && live.Labels[route.DefaultLabelKey] == labelInProgress && f.namespace == "" &&
		!f.isReferenced(live) {
		content = withoutLabel(content)
		leftover.Kinds = append(leftover.Kinds, Label)
		messages = append(messages, "no Rollout references it, but it has label "+route.DefaultLabelKey+
			" of the published plugin; its weights stay")
	}
	if len(leftover.Kinds) == 0 || reflect.DeepEqual(content, live.Content) {
		return nil
	}
	leftover.Message = strings.Join(messages, "; ")
	replaced := *live
	replaced.Content = content
	leftover.Removal = Removal{Route: &replaced}
	return []Leftover{leftover}
}

// resetRoute removes the entry of a Rollout from a route, and returns the kinds of leftovers in it. If the Rollout
// exists, its Services are known, and the stable Service gets weight 100.
func resetRoute(content map[string]any, live *facts.Route, entry route.Entry, rollout *facts.Rollout) (map[string]any,
	[]Kind, error,
) {
	kinds := []Kind{Record}
	if len(entry.Managed) > 0 {
		kinds = append(kinds, ManagedRules)
	}
	if len(entry.Destinations) > 0 {
		kinds = append(kinds, Destinations)
	}
	if rollout != nil && rollout.ServicesError == nil && entry.Weighted {
		reset, _, err := route.Apply(content, route.Intent{
			Kind: live.Kind, Rollout: entry.Rollout, UID: entry.UID, Namespace: rollout.Namespace,
			Stable: rollout.Stable, Canary: rollout.Canary,
			Weights: &route.Weights{Stable: 100}, ManagedRoutes: &[]route.ManagedRoute{},
		})
		if err == nil {
			return reset, append(kinds, RouteWeights), nil
		}
	}
	reset, err := route.RemoveOwners(content, []string{entry.Rollout})
	return reset, kinds, err
}

// isReferenced reports whether any Rollout may reference a route.
func (f *finder) isReferenced(live *facts.Route) bool {
	return slices.ContainsFunc(f.cluster.Rollouts, func(r facts.Rollout) bool { return f.mayReference(&r, live) })
}

// mayReference reports whether a Rollout references a route, or may reference it because its configuration is invalid.
func (f *finder) mayReference(r *facts.Rollout, live *facts.Route) bool {
	if !r.Uses(facts.GatewayRouter) {
		return false
	}
	for _, existing := range f.cluster.RoutesOf(r) {
		if existing.Kind == live.Kind && existing.Name == live.Name {
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
