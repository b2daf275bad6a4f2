package rollouts

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Mark is a Rollout as the mark on a routing object names it.
type Mark struct {
	// Rollout is its namespace and name.
	Rollout types.NamespacedName
	// UID is the UID that it had when it wrote the mark.
	UID types.UID
}

// Left says whether the marked Rollout has left the object: it does not exist any more, is another one of the same name, or, as names says of it as it is now, no
// longer names the object. A Rollout that may not be looked up counts as there. Any other failure to look it up is an error.
func Left(ctx context.Context, client *kube.Client, mark Mark, names func(*v1alpha1.Rollout) bool) (bool, error) {
	rollout := new(v1alpha1.Rollout)
	err := client.Get(ctx, rollout, "apis", "argoproj.io", "v1alpha1", "namespaces", mark.Rollout.Namespace, "rollouts", mark.Rollout.Name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("its owner, rollout %q: %w", mark.Rollout, err)
	}
	return rollout.UID != mark.UID || !names(rollout), nil
}
