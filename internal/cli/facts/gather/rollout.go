package gather

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
)

// ParseRollout parses the router configuration of a Rollout with the code of the routers.
func Understand(rollout *v1alpha1.Rollout) facts.Rollout {
	understood := facts.Rollout{Rollout: rollout}
	split, err := router.SplitFor(rollout, 0, nil)
	understood.Stable, understood.Canary, understood.ServicesError = split.Stable.Service, split.Canary.Service, err
	if understood.Uses(facts.HTTPRouter) {
		understood.Object, understood.ObjectError = httpso.ObjectOf(rollout)
	}
	if !understood.Uses(facts.GatewayRouter) {
		return understood
	}
	configured, err := gatewayapi.ConfiguredOf(rollout)
	understood.RoutesError = err
	for _, named := range configured.Named {
		understood.RouteNames = append(understood.RouteNames, facts.RouteName(named))
	}
	for _, selected := range configured.Selected {
		understood.Selections = append(understood.Selections, facts.Selection(selected))
	}
	return understood
}
