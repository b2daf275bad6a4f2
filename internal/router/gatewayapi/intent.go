package gatewayapi

import (
	"maps"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reconcile"
)

// intent is what is asked of each route, without what differs from route to route.
func intent(ask reconcile.Ask, chosen settings) route.Intent {
	asked := route.Intent{
		Rollout: ask.Name(), UID: string(ask.Rollout.UID), Namespace: ask.Rollout.Namespace,
		Stable: ask.Shares.Stable.Service, Canary: ask.Shares.Canary.Service, Label: chosen.label,
	}
	if ask.Weigh {
		shares := ask.Shares
		asked.Weights = &route.Weights{Stable: int32(shares.Stable.Weight), Canary: int32(shares.Canary.Weight)} //nolint:gosec // up to maxTrafficWeight, which is an int32
		for _, other := range shares.Others {
			asked.Weights.Others = append(asked.Weights.Others, route.Destination{Service: other.Service, Weight: int32(other.Weight)}) //nolint:gosec // as above
		}
	}
	if ask.Managed != nil {
		managed := managedOf(*ask.Managed)
		asked.Managed = &managed
	}
	return asked
}

// managedOf is a set of managed routes in the words of package route.
func managedOf(routes []router.ManagedRoute) []route.Managed {
	set := []route.Managed{}
	for _, managed := range routes {
		if managed.Header != nil {
			set = append(set, route.Managed{Name: managed.Name, Header: headerMatches(managed.Header.Match)})
		} else {
			set = append(set, route.Managed{Name: managed.Name, Mirror: mirrorOf(managed.Mirror)})
		}
	}
	return set
}

func headerMatches(given []v1alpha1.HeaderRoutingMatch) []route.HeaderMatch {
	var matches []route.HeaderMatch
	for _, match := range given {
		value := stringMatch(match.HeaderValue)
		if value == nil {
			value = &route.StringMatch{Type: route.Exact} // package route says what is wrong with it
		}
		matches = append(matches, route.HeaderMatch{Name: match.HeaderName, Type: value.Type, Value: value.Value})
	}
	return matches
}

// mirrorOf is the mirror route of a step. A missing percentage is 100; so is one of zero, which travels as a missing one and would make no route.
func mirrorOf(step *v1alpha1.SetMirrorRoute) *route.Mirror {
	mirror := &route.Mirror{Percent: 100}
	if step.Percentage != nil && *step.Percentage > 0 {
		mirror.Percent = *step.Percentage
	}
	for _, match := range step.Match {
		converted := route.MirrorMatch{Method: stringMatch(match.Method), Path: stringMatch(match.Path)}
		for _, name := range slices.Sorted(maps.Keys(match.Headers)) {
			value := match.Headers[name]
			if condition := stringMatch(&value); condition != nil {
				converted.Headers = append(converted.Headers, route.HeaderMatch{Name: name, Type: condition.Type, Value: condition.Value})
			}
		}
		mirror.Matches = append(mirror.Matches, converted)
	}
	return mirror
}

// stringMatch is the condition that is given; nil where none is. Of several, exact comes before prefix and prefix before regex.
func stringMatch(given *v1alpha1.StringMatch) *route.StringMatch {
	switch {
	case given == nil:
		return nil
	case given.Exact != "":
		return &route.StringMatch{Type: route.Exact, Value: given.Exact}
	case given.Prefix != "":
		return &route.StringMatch{Type: route.Prefix, Value: given.Prefix}
	case given.Regex != "":
		return &route.StringMatch{Type: route.Regex, Value: given.Regex}
	default:
		return nil
	}
}
