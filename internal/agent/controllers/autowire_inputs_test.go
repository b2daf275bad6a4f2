package controllers_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// TestBackendTLSPolicies has a policy for the Service of wired HTTPRoutes, in each version that an API server may serve.
// A policy of the earlier version is stale if the agent watches both.
func TestBackendTLSPolicies(t *testing.T) {
	t.Parallel()
	policy := apis.BackendTLSPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-tls"},
		Spec:       apis.BackendTLSPolicySpec{TargetRefs: []apis.PolicyTargetReference{{Kind: "Service", Name: "shop"}}},
	}
	for version, want := range map[string]bool{"v1": true, "v1alpha3": true, "both": false, "none": false} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			m := newTeam(t)
			m.agent.SharedNamespace = ""
			m.agent.IsInstalled = func(kind schema.GroupVersionKind) bool {
				return kind.Kind != policyKind || version == "both" || kind.Version == version
			}
			if err := m.again(t); err != nil {
				t.Fatal(err)
			}
			stable, alpha := policy, apis.AlphaBackendTLSPolicy{BackendTLSPolicy: policy}
			if version == "v1" {
				if err := m.api.Create(t.Context(), &stable); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.api.Create(t.Context(), &alpha); version == "v1alpha3" && err != nil {
				t.Fatal(err)
			}
			if err := m.again(t); err != nil {
				t.Fatal(err)
			}
			condition := meta.FindStatusCondition(m.shop(t).Status.Conditions, httpv1alpha1.ConditionAutowired)
			isBlocked := condition != nil && condition.Reason == httpv1alpha1.ReasonProtocolMismatch &&
				strings.Contains(condition.Message, "HTTPRoute route0, /: BackendTLSPolicy shop-tls uses TLS to the application")
			if isBlocked != want {
				t.Errorf("condition %+v, want ProtocolMismatch: %v", condition, want)
			}
		})
	}
}

// policyKind is the kind of BackendTLSPolicies.
const policyKind = "BackendTLSPolicy"

// TestDefaultIngressClass has Ingresses without a class. The default one belongs to a load balancer that needs a
// NodePort.
func TestDefaultIngressClass(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.agent.SharedNamespace = ""
	class := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "public", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"},
		},
		Spec: networkingv1.IngressClassSpec{Controller: "eks.amazonaws.com/alb"},
	}
	if err := m.api.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if err := m.again(t); err != nil {
		t.Fatal(err)
	}
	condition := meta.FindStatusCondition(m.shop(t).Status.Conditions, httpv1alpha1.ConditionAutowired)
	if condition == nil || condition.Reason != httpv1alpha1.ReasonServiceTypeMismatch {
		t.Errorf("condition %+v, want ServiceTypeMismatch", condition)
	}
}
