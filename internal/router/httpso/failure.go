package httpso

import (
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// explain says for a failed read or write which object it concerns and what to do about it. A nil err stays nil.
func explain(want intent, err error) error {
	return resilience.Explain(fmt.Sprintf("HTTPScaledObject %q of rollout %q", want.object, want.rollout), err, resilience.Remedies{
		NotFound: fmt.Sprintf("create it (and install the CustomResourceDefinition httpscaledobjects.http.keda.sh if it is missing), or correct %s.%s",
			configField, objectKey),
		Forbidden: "allow the controller's ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding argo-rollouts-kedify-http",
	})
}
