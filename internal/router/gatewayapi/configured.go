package gatewayapi

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// Configured are the routes that a Rollout names for this router. It is for programs that look at a Rollout from
// outside.
type Configured struct {
	// Named are those that it names one by one.
	Named []NamedRoute
	// Selected are those that it chooses by labels.
	Selected []SelectedRoutes
}

// NamedRoute is one route.
type NamedRoute struct {
	Kind     route.Kind
	Name     types.NamespacedName
	RuleName string // the only rule to touch; empty for all
	Field    string // of the Rollout
}

// SelectedRoutes are the routes of a namespace that have labels.
type SelectedRoutes struct {
	Kind      route.Kind
	Namespace string
	Labels    labels.Selector
	Field     string // of the Rollout
}

// ConfiguredOf reads what a Rollout configures of this router. The error is the one that the router's calls return.
func ConfiguredOf(rollout *v1alpha1.Rollout) (Configured, error) {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return Configured{}, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	var found Configured
	for _, r := range chosen.routes {
		found.Named = append(found.Named, NamedRoute{Kind: r.kind, Name: r.name, RuleName: r.ruleName, Field: r.field})
	}
	for _, s := range chosen.selections {
		found.Selected = append(found.Selected, SelectedRoutes{Kind: s.kind, Namespace: s.namespace, Labels: s.labels, Field: s.field})
	}
	return found, nil
}
