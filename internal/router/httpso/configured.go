package httpso

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// ObjectOf is the name of the HTTPScaledObject, in the Rollout's namespace, that a Rollout names for this router. It
// is for programs that look at a Rollout from outside; the error is the one that the router's calls return.
func ObjectOf(rollout *v1alpha1.Rollout) (string, error) {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return "", fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	return chosen.object, nil
}

// OwnerOf is the Rollout that the annotation weighted-backends-owner of an object in namespace names, with its UID;
// false where the text is none that this router writes.
func OwnerOf(text, namespace string) (rollout types.NamespacedName, uid types.UID, is bool) {
	read, is := parseOwner(text, namespace)
	return read.rollout, read.uid, is
}
