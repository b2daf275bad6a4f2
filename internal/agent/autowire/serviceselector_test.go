package autowire_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// withoutSelector is a Service for clients in the cluster that selects no Pods, and completedService is that Service
// with what the fallback Service of completing has.
const (
	withoutSelector = `{kind: Service, metadata: {name: shop, namespace: team}, spec: {type: ClusterIP, clusterIP: 10.96.0.8, ` +
		`ports: [{name: http, port: 80, targetPort: 80}, {name: web, port: 81, targetPort: 80}]}}`
	completedService = `{kind: Service, metadata: {name: shop, namespace: team}, spec: {type: ClusterIP, clusterIP: 10.96.0.8, ` +
		`selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 9090}, {name: web, port: 81, targetPort: 9090}]}}`
)

// completing returns a namespace with withoutSelector, and a fallback Service of its user, whose ports have a number or a
// name of it.
func completing(t *testing.T) *fixture {
	t.Helper()
	w := newServices(t, withoutSelector)
	w.Services["shop-fallback"] = &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "shop"},
		Ports: []corev1.ServicePort{
			{Name: "a", Port: 80, TargetPort: intstr.FromInt32(9090)}, {Name: "web", Port: 9090},
		},
	}}
	w.Services["shop-fallback"].Name = "shop-fallback"
	return w
}

// TestServiceWithoutSelector has a Service that gets the selector of its fallback Service before it is taken over, and
// keeps it.
func TestServiceWithoutSelector(t *testing.T) {
	t.Parallel()
	w := completing(t)
	found := w.plan(t)
	if len(found.Changes) != 1 || len(found.Services) > 0 {
		t.Fatalf("first plan: %+v", found)
	}
	const message = "it has the selector of Service shop-fallback, because it had none"
	if change := found.Changes[0]; change.Reason != "SelectorAdded" || change.Message != message {
		t.Errorf("Event %s: %s", change.Reason, change.Message)
	}
	if condition := found.Conditions["shop"]; condition.Reason != "NotProgrammed" ||
		condition.Message != "Service shop, ports 80, 81: it first gets the selector of Service shop-fallback" {
		t.Errorf("condition %s: %s", condition.Reason, condition.Message)
	}
	w.write(t, found.Changes[0])
	w.isOriginal(t, completedService)
	if got := w.converge(t).Conditions["shop"]; got.Status != "True" {
		t.Errorf("then: %s: %s", got.Reason, got.Message)
	}
	w.reports(t, "Wired: Service shop, ports 80, 81")
	w.isRestored(t, completedService)
}

// TestServiceKeepsNoSelector has Services that get no selector, and one whose selector a user removes again.
func TestServiceKeepsNoSelector(t *testing.T) {
	t.Parallel()
	const where = "UnsupportedSetting: Service shop, ports 80, 81: "
	missing := where + "it has no selector, and the Service to which the proxies forward has none that the agent could give it; name one " +
		"that selects the application in fallbackService of the trigger"
	tests := map[string]struct {
		edit func(*fixture)
		says string
	}{
		"no fallback Service": {func(w *fixture) { delete(w.Services, "shop-fallback") }, missing},
		"a fallback Service without a selector": {func(w *fixture) {
			w.Services["shop-fallback"].Spec.Selector = nil
		}, missing},
		"a fallback Service that selects the Pods of one version": {func(w *fixture) {
			w.Services["shop-fallback"].Spec.Selector = map[string]string{"rollouts-pod-template-hash": "abc"}
		}, missing},
		"a fallback Service of the agent": {func(w *fixture) {
			w.Services["shop-fallback"].Labels = map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}
		}, missing},
		"endpoints of someone else": {func(w *fixture) {
			w.OtherEndpoints = map[string]string{"shop": "Kubernetes does not maintain its EndpointSlice shop-1 (managed by other)"}
		}, where + "it has no selector, and Kubernetes does not maintain its EndpointSlice shop-1 (managed by other), so requests would " +
			"reach both those endpoints and Service shop-fallback; delete it"},
		"a port that leads elsewhere": {func(w *fixture) {
			w.Services["shop-fallback"].Spec.Ports[1].Port = 9091
		}, where + "its port 81 leads to another port of the application than port 80"},
		"a host that is not its name": {func(w *fixture) {
			w.Targets = []autowire.Target{serviceTarget("shop", "shop.test")}
		}, "RequestMismatch: Service shop, ports 80, 81: clients in the cluster send its name as host"},
		"another HTTPScaledObject": {func(w *fixture) {
			w.Rivals = []autowire.Target{serviceTarget("other", "*")}
			w.Rivals[0].Service = "shop"
		}, where + `HTTPScaledObject "other" forwards to it, too`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := completing(t)
			test.edit(w)
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			w.isOriginal(t, withoutSelector)
		})
	}
}

// TestSelectorOfRollout: without the label of the controller, the stable Service's selector has the Pods of all versions.
func TestSelectorOfRollout(t *testing.T) {
	t.Parallel()
	w := completing(t)
	w.Services["shop-fallback"].Spec.Selector = map[string]string{"app": "shop", "rollouts-pod-template-hash": "abc"}
	w.write(t, w.plan(t).Changes[0])
	w.isOriginal(t, completedService)
}

// TestSelectorRemovedAgain: a tool replaces a Service that is taken over with its manifest, which has no selector. It gets
// one again, and is taken over again.
func TestSelectorRemovedAgain(t *testing.T) {
	t.Parallel()
	w := completing(t)
	w.write(t, w.plan(t).Changes[0])
	w.wire(t)
	w.stored[0] = canonicalJSON(t, withoutSelector)
	w.write(t, w.plan(t).Changes[0])
	w.isOriginal(t, completedService)
	w.reports(t, "Wired: Service shop, ports 80, 81")
}

// TestServiceBehindIngress has a Service whose name no client uses: an Ingress sends it requests for the trigger's host.
func TestServiceBehindIngress(t *testing.T) {
	t.Parallel()
	ingress := `{kind: Ingress, metadata: {name: shop, namespace: team}, spec: {rules: [{host: shop.test, http: {paths: [` +
		`{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]}}`
	for host, want := range map[string]string{"shop.test": "Wired", "other.test": "RequestMismatch"} {
		w := newServices(t, inCluster, ingress)
		w.Targets = []autowire.Target{serviceTarget("shop", host)}
		w.wire(t)
		if got := w.converge(t).Conditions["shop"]; got.Reason != want {
			t.Errorf("host %s: %s: %s", host, got.Reason, got.Message)
		}
	}
}
