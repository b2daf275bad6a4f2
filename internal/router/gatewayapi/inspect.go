package gatewayapi

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// Configured contains the routes that a Rollout configures for this router. It is for programs that inspect Rollouts.
type Configured struct {
	// Named are the routes that are configured by name.
	Named []NamedRoute
	// Selected are the label selectors.
	Selected []SelectedRoutes
}

// NamedRoute is a route that is configured by name.
type NamedRoute struct {
	Kind     route.Kind
	Name     types.NamespacedName
	RuleName string // the only rule in scope; empty for all
	Field    string // of the Rollout
}

// SelectedRoutes is a label selector for routes of a namespace.
type SelectedRoutes struct {
	Kind      route.Kind
	Namespace string
	Labels    labels.Selector
	Field     string // of the Rollout
}

// ConfiguredOf parses the configuration of this router in rollout. The error is that of the router's calls.
func ConfiguredOf(rollout *v1alpha1.Rollout) (Configured, error) {
	chosen, err := settingsOf(rollout)
	if err == nil {
		err = chosen.sessionsErr
	}
	if err != nil {
		return Configured{}, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	var configured Configured
	for _, r := range chosen.routes {
		configured.Named = append(configured.Named, NamedRoute{
			Kind: r.kind, Name: r.name, RuleName: r.ruleName,
			Field: r.field,
		})
	}
	for _, s := range chosen.selections {
		configured.Selected = append(configured.Selected,
			SelectedRoutes{Kind: s.kind, Namespace: s.namespace, Labels: s.labels, Field: s.field})
	}
	return configured, nil
}
