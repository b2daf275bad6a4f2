package gatewayapi

import (
	"context"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/internal/router/ownership"
)

// left says whether a Rollout that the record on found names as an owner has left the route, as package ownership has it.
func (r *Router) left(ctx context.Context, t target, found *object, owner *route.OwnedError) (bool, error) {
	namespace, name, isPath := strings.Cut(owner.Rollout, "/")
	if !isPath || namespace == "" || name == "" || strings.Contains(name, "/") {
		return true, nil // nobody of ours wrote that
	}
	mark := ownership.Mark{Rollout: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(owner.UID)}
	return ownership.Left(ctx, r.client.api, mark, func(rollout *v1alpha1.Rollout) bool { return names(rollout, t, found) })
}

// names says whether rollout is routed by this router through the route.
func names(rollout *v1alpha1.Rollout, t target, found *object) bool {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(chosen.routes, func(named target) bool { return named.kind == t.kind && named.name == t.name }) ||
		slices.ContainsFunc(chosen.selections, func(which selection) bool {
			return which.kind == t.kind && which.namespace == t.name.Namespace && which.labels.Matches(found.labels)
		})
}
