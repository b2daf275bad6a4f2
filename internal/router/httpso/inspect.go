package httpso

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// ObjectOf returns the name of the HTTPScaledObject, in the Rollout's namespace, that rollout configures for this
// router, or that of the InterceptorRoute if isRoute is true. It is for programs that inspect Rollouts; the error is that
// of the router's calls.
func ObjectOf(rollout *v1alpha1.Rollout) (name string, isRoute bool, err error) {
	chosen, err := settingsOf(rollout)
	if err == nil {
		err = chosen.stickinessErr
	}
	if err != nil {
		return "", false, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	return chosen.object, chosen.isRoute, nil
}

// OwnerOf parses the annotation weighted-backends-owner of an object in namespace; ok is false for a text that this
// router does not write.
func OwnerOf(text, namespace string) (rollout types.NamespacedName, uid types.UID, ok bool) {
	parsed, ok := parseOwner(text, namespace)
	return parsed.rollout, parsed.uid, ok
}
