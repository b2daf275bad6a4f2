package controllers_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// newScheme returns a scheme with all kinds that the agent reads and writes.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme),
		appsv1.AddToScheme(scheme), policyv1.AddToScheme(scheme), httpv1alpha1.AddToScheme(scheme), httpv1beta1.AddToScheme(scheme), apis.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	return scheme
}
