package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// intent is what a call asks for, worked out from the Rollout alone.
type intent struct {
	settings

	rollout string       // namespace/name, for messages
	asked   route.Intent // of each route, without what differs from route to route
}

// intentOf works out what a call asks for that gives the canary weight and others theirs, or which field of the Rollout is wrong. What it says of managed routes
// is for the caller.
func intentOf(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (intent, error) {
	shares, err := router.SharesOf(rollout, weight, others)
	if err != nil {
		return intent{}, err
	}
	chosen, err := settingsOf(rollout)
	if err != nil {
		return intent{}, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	weights := route.Weights{Stable: int32(shares.Stable.Weight), Canary: int32(shares.Canary.Weight)} //nolint:gosec // up to maxTrafficWeight, which is an int32
	for _, other := range shares.Others {
		weights.Others = append(weights.Others, route.Destination{Service: other.Service, Weight: int32(other.Weight)}) //nolint:gosec // as above
	}
	return intent{settings: chosen, rollout: router.NameOf(rollout), asked: route.Intent{
		Rollout: router.NameOf(rollout), UID: string(rollout.UID), Namespace: rollout.Namespace,
		Stable: shares.Stable.Service, Canary: shares.Canary.Service, Weights: &weights, Label: chosen.label,
	}}, nil
}

// idle says whether nothing is asked for that needs a route: everything goes to the stable Service, and there are no managed routes.
func (i intent) idle() bool {
	return (i.asked.Weights == nil || i.asked.Weights.Idle()) && (i.asked.Managed == nil || len(*i.asked.Managed) == 0)
}

// full says whether the canary gets every request, as before the old ReplicaSet is scaled down.
func (i intent) full() bool {
	return i.asked.Weights != nil && i.asked.Weights.Stable == 0 && i.asked.Weights.Canary > 0
}

// of is what is asked of one route.
func (i intent) of(t target, schema served) route.Intent {
	asked := i.asked
	asked.Kind, asked.RuleName = t.kind, t.ruleName
	asked.NamedRules, asked.MirrorPercent = schema.namedRules, schema.mirrorPercent
	switch {
	case asked.Managed == nil:
	case !t.kind.HeaderRoutes() && !t.kind.MirrorRoutes():
		asked.Managed = nil
	case !t.headerRoutes:
		asked.Managed = &[]route.Managed{}
	}
	return asked
}

// takesManagedRoutes says whether a header or mirror route has a route to go to. Routes that are found by their labels take none, as with the published plugin.
func (i intent) takesManagedRoutes() bool {
	return slices.ContainsFunc(i.routes, func(t target) bool { return t.headerRoutes && (t.kind.HeaderRoutes() || t.kind.MirrorRoutes()) })
}

// managedOf is the full set of managed routes of rollout, in the words of package route.
func managedOf(rollout *v1alpha1.Rollout) *[]route.Managed {
	set := []route.Managed{}
	for _, managed := range router.ManagedRoutes(rollout) {
		if managed.Header != nil {
			set = append(set, route.Managed{Name: managed.Name, Header: headerMatches(managed.Header.Match)})
		} else {
			set = append(set, route.Managed{Name: managed.Name, Mirror: mirrorOf(managed.Mirror)})
		}
	}
	return &set
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
