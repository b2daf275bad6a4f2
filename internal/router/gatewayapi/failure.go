package gatewayapi

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// failures are errors that happened side by side, in one line.
type failures []error

// joined is nil where all errs are, the error where there is one, and failures where there are more.
func joined(errs []error) error {
	var happened failures
	for _, err := range errs {
		if err != nil {
			happened = append(happened, err)
		}
	}
	switch len(happened) {
	case 0:
		return nil
	case 1:
		return happened[0]
	default:
		return happened
	}
}

// Error is the text of all, divided by semicolons.
func (f failures) Error() string {
	texts := make([]string, 0, len(f))
	for _, err := range f {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all, for errors.Is and errors.As.
func (f failures) Unwrap() []error { return f }

// explain says for a failed read or write which route it concerns and what to do about it. A nil err stays nil.
func explain(want intent, t target, err error) error {
	concerns := fmt.Sprintf("%s of rollout %q", t, want.rollout)
	if errors.Is(err, errNotServed) {
		return fmt.Errorf("%s: %w: install the CustomResourceDefinition %s.%s, or correct %s", concerns, err, t.kind.Resource(), group, t.field)
	}
	return resilience.Explain(concerns, err, resilience.Remedies{
		NotFound: "create it, or correct " + t.field,
		Forbidden: fmt.Sprintf("allow the controller's ServiceAccount to get, list, watch and update %s of %s in namespace %q: apply the ClusterRole and "+
			"ClusterRoleBinding argo-rollouts-gateway-api", t.kind.Resource(), group, t.name.Namespace),
	})
}

// isMissing says whether err says that the route does not exist, so that there is nothing to undo.
func isMissing(err error) bool { return apierrors.IsNotFound(err) || errors.Is(err, errNotServed) }

// explainSelection is explain for a selection of routes.
func explainSelection(want intent, which selection, err error) error {
	return explain(want, target{kind: which.kind, name: types.NamespacedName{Namespace: which.namespace, Name: "*"}, field: which.field}, err)
}
