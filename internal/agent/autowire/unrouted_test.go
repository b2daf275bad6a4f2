package autowire_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// TestUnroutedObjects: an object to which no request is routed is no target, takes no requests of other targets, and
// needs no proxies.
func TestUnroutedObjects(t *testing.T) {
	t.Parallel()
	for value, isRouted := range map[string]bool{httpv1alpha1.RoutingNone: false, "all": true} {
		object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Labels: map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent},
			Annotations: map[string]string{httpv1alpha1.AnnotationRouting: value},
		}}
		_, isTarget := autowire.TargetOf(object, "keda")
		hosts, needsProxy := autowire.RivalOf(object, "keda").Hosts, proxies.NeedsProxy(object)
		if isTarget != isRouted || len(hosts) > 0 != isRouted || needsProxy != isRouted {
			t.Errorf("%s: a target: %v, hosts %q, needs proxies: %v", value, isTarget, hosts, needsProxy)
		}
	}
}
