package gatewayapi

import (
	"math"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// intent is what is asked of each route, without what differs from route to route.
func intent(ask engine.Ask, chosen settings) route.Intent {
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
	managed := managedOf(ask.Managed)
	asked.Managed = &managed
	return asked
}

// managedOf is a set of managed routes in the words of package route.
func managedOf(routes []managedroute.Route) []route.Managed {
	set := make([]route.Managed, 0, len(routes))
	for _, managed := range routes {
		asked := route.Managed{Name: managed.Name}
		if managed.IsMirror() {
			asked.Mirror = mirrorOf(managed)
		} else {
			asked.Header = headersOf(managed.Matches[0].Headers)
		}
		set = append(set, asked)
	}
	return set
}

// headersOf are conditions on headers. Package route says what is wrong with one that is empty.
func headersOf(given []managedroute.HeaderMatch) []route.HeaderMatch {
	var matches []route.HeaderMatch
	for _, match := range given {
		matches = append(matches, route.HeaderMatch{Name: match.Name, Type: route.MatchType(match.Type), Value: match.Value})
	}
	return matches
}

// mirrorOf is the mirror of a mirror route.
func mirrorOf(managed managedroute.Route) *route.Mirror {
	mirror := &route.Mirror{Percent: int32(min(managed.MirrorPercent, math.MaxInt32))}
	for _, match := range managed.Matches {
		mirror.Matches = append(mirror.Matches, route.MirrorMatch{
			Method: conditionOf(match.Method), Path: conditionOf(match.Path), Headers: headersOf(match.Headers),
		})
	}
	return mirror
}

// conditionOf is a condition that need not be there.
func conditionOf(given managedroute.StringMatch) *route.StringMatch {
	if given == (managedroute.StringMatch{}) {
		return nil
	}
	return &route.StringMatch{Type: route.MatchType(given.Type), Value: given.Value}
}
