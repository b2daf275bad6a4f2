package gather

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
)

// ParseRollout parses the router configuration of a Rollout with the code of the routers.
func ParseRollout(rollout *v1alpha1.Rollout) facts.Rollout {
	parsed := facts.Rollout{Rollout: rollout}
	split, err := router.SplitFor(rollout, 0, nil)
	parsed.Stable, parsed.Canary, parsed.ServicesError = split.Stable.Service, split.Canary.Service, err
	if parsed.Uses(facts.HTTPRouter) {
		name, isRoute, err := httpso.ObjectOf(rollout)
		if parsed.ObjectError = err; isRoute {
			parsed.InterceptorRoute = name
		} else {
			parsed.Object = name
		}
	}
	if !parsed.Uses(facts.GatewayRouter) {
		return parsed
	}
	configured, err := gatewayapi.ConfiguredOf(rollout)
	parsed.RoutesError = err
	for _, named := range configured.Named {
		parsed.RouteNames = append(parsed.RouteNames, facts.RouteName(named))
	}
	for _, selected := range configured.Selected {
		parsed.Selections = append(parsed.Selections, facts.Selection(selected))
	}
	return parsed
}
