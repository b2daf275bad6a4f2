package gatewayapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// left says whether a Rollout that the record on found names as an owner has left the route: it does not exist any more, is another one of the same name, or no
// longer names the route. A Rollout that may not be looked up counts as there.
func (r *Router) left(ctx context.Context, t target, found *object, owner *route.OwnedError) (bool, error) {
	namespace, name, isPath := strings.Cut(owner.Rollout, "/")
	if !isPath || namespace == "" || name == "" || strings.Contains(name, "/") {
		return true, nil // nobody of ours wrote that
	}
	rollout := new(v1alpha1.Rollout)
	err := r.client.api.Get(ctx, rollout, "apis", "argoproj.io", "v1alpha1", "namespaces", namespace, "rollouts", name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("its owner, rollout %q: %w", owner.Rollout, err)
	}
	return string(rollout.UID) != owner.UID || !names(rollout, t, found), nil
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
