package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// TestIsRouteUpdated has updates of a Route without a generation, as OpenShift's API server stores it.
func TestIsRouteUpdated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*apis.Route)
		want   bool
	}{
		"nothing":       {func(*apis.Route) {}, false},
		"its version":   {func(r *apis.Route) { r.ResourceVersion = "2" }, false},
		"a backend":     {func(r *apis.Route) { r.Spec.To.Name = "cart" }, true},
		"the port":      {func(r *apis.Route) { r.Spec.Port = []byte(`{"targetPort":"http"}`) }, true},
		"a host":        {func(r *apis.Route) { r.Status.Ingress = []apis.RouteIngress{{Host: "shop.test"}} }, true},
		"an annotation": {func(r *apis.Route) { r.Annotations = map[string]string{"a": "b"} }, true},
		"its owner":     {func(r *apis.Route) { r.OwnerReferences = []metav1.OwnerReference{{Kind: "Ingress"}} }, true},
		"its deletion":  {func(r *apis.Route) { r.DeletionTimestamp = new(metav1.Now()) }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &apis.Route{Spec: apis.RouteSpec{To: apis.RouteTarget{Name: "shop"}}}
			after := before.DeepCopy()
			test.change(after)
			if got := isRouteUpdated(before, after); got != test.want {
				t.Errorf("updated: %v, want %v", got, test.want)
			}
		})
	}
	if !isRouteUpdated(nil, &apis.Route{}) {
		t.Error("an unknown object counts as the same")
	}
}
