package gatewayapi

import (
	"math"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// intent converts a request to a route.Intent without the fields that depend on the route.
func (c *configuration) intent(request engine.Request) route.Intent {
	intent := route.Intent{
		Rollout: request.Name(), UID: string(request.Rollout.UID), Namespace: request.Rollout.Namespace,
		Stable: request.Split.Stable.Service, Canary: request.Split.Canary.Service, Label: c.settings.label,
		Sessions: c.settings.sessions, SessionsError: c.settings.sessionsErr, KeepsSessions: request.EndsCanary(),
	}
	if !intent.Sessions.Header && intent.Sessions.Name != "" {
		intent.Sessions.Revision = request.Rollout.Status.CurrentPodHash
	}
	if request.SetsWeights {
		intent.Weights = weightsOf(request.Split)
	}
	managed := managedOf(request.ManagedRoutes)
	intent.ManagedRoutes = &managed
	return intent
}

// weightsOf converts a traffic split. Its weights are at most maxTrafficWeight, an int32.
func weightsOf(split router.Split) *route.Weights {
	weights := &route.Weights{
		Stable: int32(split.Stable.Weight), Canary: int32(split.Canary.Weight), //nolint:gosec // see above
	}
	for _, other := range split.Others {
		weights.Others = append(weights.Others, route.Destination{
			Service: other.Service, Weight: int32(other.Weight), //nolint:gosec // see above
		})
	}
	return weights
}

// managedOf converts managed routes.
func managedOf(routes []managedroute.Route) []route.ManagedRoute {
	converted := make([]route.ManagedRoute, 0, len(routes))
	for _, from := range routes {
		managed := route.ManagedRoute{Name: from.Name}
		if from.IsMirror() {
			managed.Mirror = mirrorOf(from)
		} else {
			managed.Header = headersOf(from.Matches[0].Headers)
		}
		converted = append(converted, managed)
	}
	return converted
}

// headersOf converts header matches. Package route validates them.
func headersOf(from []managedroute.HeaderMatch) []route.HeaderMatch {
	var matches []route.HeaderMatch
	for _, match := range from {
		matches = append(matches, route.HeaderMatch{Name: match.Name, Type: route.MatchType(match.Type), Value: match.Value})
	}
	return matches
}

// mirrorOf converts a mirror route.
func mirrorOf(from managedroute.Route) *route.Mirror {
	mirror := &route.Mirror{Percent: int32(min(from.MirrorPercent, math.MaxInt32))}
	for _, match := range from.Matches {
		mirror.Matches = append(mirror.Matches, route.MirrorMatch{
			Method: stringMatchOf(match.Method), Path: stringMatchOf(match.Path), Headers: headersOf(match.Headers),
		})
	}
	return mirror
}

// stringMatchOf converts an optional match.
func stringMatchOf(from managedroute.StringMatch) *route.StringMatch {
	if from == (managedroute.StringMatch{}) {
		return nil
	}
	return &route.StringMatch{Type: route.MatchType(from.Type), Value: from.Value}
}
