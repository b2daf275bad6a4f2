package autowire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestTrim compares what stays of large metadata. The other tests of this package plan with trimmed objects, too.
func TestTrim(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 100_000)
	const rewrite = "nginx.ingress.kubernetes.io/rewrite-target"
	entries := []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{},"f:` + large + `":{}}`)}},
		{Manager: "nginx", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)}},
	}
	managers := []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}
	for name, c := range map[string]struct{ annotations, ofIngress, ofRoute map[string]string }{
		"none": {nil, nil, nil},
		"one that is read": {
			map[string]string{rewrite: "/", "b": large, undo: "c"},
			map[string]string{rewrite: "/", undo: "c"},
			map[string]string{undo: "c"},
		},
		"none is read": {
			map[string]string{"b": large, "a": large}, map[string]string{"a": ""}, map[string]string{"a": ""},
		},
		"by its beginning": {
			map[string]string{"alb.ingress.kubernetes.io/actions.shop": "c"},
			map[string]string{"alb.ingress.kubernetes.io/actions.shop": "c"},
			map[string]string{"alb.ingress.kubernetes.io/actions.shop": ""},
		},
	} {
		meta := metav1.ObjectMeta{
			Name: "web", Labels: map[string]string{"a": "b"}, Annotations: c.annotations, Finalizers: []string{large},
			OwnerReferences: []metav1.OwnerReference{{Name: large}}, ManagedFields: entries,
		}
		ingress := networkingv1.Ingress{ObjectMeta: *meta.DeepCopy()}
		ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: large}}
		route := apis.HTTPRoute{ObjectMeta: *meta.DeepCopy()}
		for range 2 { // client-go may trim an object again
			autowire.NewTrimmer().Ingress(&ingress)
			autowire.NewTrimmer().HTTPRoute(&route)
		}
		want := metav1.ObjectMeta{Name: "web", Annotations: c.ofIngress, ManagedFields: managers}
		if diff := cmp.Diff(networkingv1.Ingress{ObjectMeta: want}, ingress); diff != "" {
			t.Errorf("%s: Ingress (-want +got):\n%s", name, diff)
		}
		want.Annotations, want.Labels = c.ofRoute, meta.Labels
		if diff := cmp.Diff(apis.HTTPRoute{ObjectMeta: want}, route); diff != "" {
			t.Errorf("%s: HTTPRoute (-want +got):\n%s", name, diff)
		}
	}
}
