package rollouts

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Owner is the Rollout in the owner mark of a routing object.
type Owner struct {
	// Rollout is its namespace and name.
	Rollout types.NamespacedName
	// UID is its UID at the time of the mark.
	UID types.UID
}

// IsOwnerGone reports whether the owner no longer uses the object: it does not exist, has another UID, or, as
// references returns for its current state, does not reference the object. A Rollout that may not be read counts as an
// owner. Any other failure to read it is an error.
func IsOwnerGone(
	ctx context.Context, client *kube.Client, owner Owner, references func(*v1alpha1.Rollout) bool,
) (bool, error) {
	rollout := new(v1alpha1.Rollout)
	err := client.Get(ctx, rollout,
		"apis", "argoproj.io", "v1alpha1", "namespaces", owner.Rollout.Namespace, "rollouts", owner.Rollout.Name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("owner: rollout %q: %w", owner.Rollout, err)
	}
	return rollout.UID != owner.UID || !references(rollout), nil
}
