package autowire_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// TestUnreadableInputs has backends for which the agent lacks IngressClasses or BackendTLSPolicies. It wires no other
// backend, keeps those that are wired on their port, and still restores them. A restored one is wired again once the
// agent has the inputs, because its port may depend on them.
func TestUnreadableInputs(t *testing.T) {
	t.Parallel()
	const ofIngresses, ofRoutes = trigger.AutowireIngress, trigger.AutowireHTTPRoute
	secured := []apis.BackendTLSPolicy{policy(t, "proxies", `[{group: "", kind: Service, name: kedify-proxy}]`)}
	for name, c := range map[string]struct {
		object     string
		unreadable trigger.AutowireKind
		policies   []apis.BackendTLSPolicy // while they can be read
		says       string                  // of a backend that is not wired
	}{
		"Ingress":                   {store("/"), ofIngresses, nil, "PermissionMissing: Ingress web, shop.test/: kind X cannot be read"},
		"Ingress, policies":         {store("/"), ofRoutes, nil, "Wired: Ingress web, shop.test/"},
		"HTTPRoute":                 {route("shop.test", toShop), ofRoutes, nil, "PermissionMissing: HTTPRoute web, shop.test/: kind X"},
		"HTTPRoute over TLS":        {route("shop.test", toShop), ofRoutes, secured, "PermissionMissing: HTTPRoute web, shop.test/: "},
		"HTTPRoute, classes":        {route("shop.test", toShop), ofIngresses, nil, "Wired: HTTPRoute web, shop.test/"},
		"Ingress with another Host": {store("/", nginx+"upstream-vhost", "b.test"), ofIngresses, nil, "RequestMismatch: "},
		"Ingress of a named class":  {strings.Replace(store("/"), "spec: {", "spec: {ingressClassName: nginx, ", 1), ofIngresses, nil, "PermissionMissing: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld := func() *fixture {
				w := newFixture(t, c.object)
				w.HasTLSProxy = true
				w.Targets = []autowire.Target{target("shop", "shop.test")}
				w.Targets[0].Certificate = autowire.CertificateActive
				return w
			}
			w := newWorld()
			w.Unreadable = map[trigger.AutowireKind]string{c.unreadable: "kind X cannot be read"}
			w.expect(t, c.says)

			w = newWorld()
			w.TLSPolicies = c.policies
			before := w.converge(t).Conditions["shop"]
			wired := w.stored[0]
			w.TLSPolicies, w.Unreadable = nil, map[trigger.AutowireKind]string{c.unreadable: "kind X cannot be read"}
			if after := w.converge(t).Conditions["shop"]; after.Status != before.Status || w.stored[0] != wired {
				t.Errorf("condition %+v, before %+v; object before and after:\n%s\n%s", after, before, asYAML(t, wired),
					asYAML(t, w.stored[0]))
			}
			if w.HasProxy = false; strings.Contains(w.unwiredWithoutProxy(t), "kedify-proxy") {
				t.Errorf("it is not restored without a proxy:\n%s", asYAML(t, w.stored[0]))
			}
			if !strings.HasPrefix(c.says, httpv1alpha1.ReasonPermissionMissing) {
				return
			}
			w.HasProxy, w.Now = true, w.Now.Add(w.CoolDown)
			if got := w.converge(t).Conditions["shop"]; got.Reason != httpv1alpha1.ReasonPermissionMissing {
				t.Errorf("after the outage: condition %+v", got)
			}
			w.TLSPolicies, w.Unreadable = c.policies, nil
			if got := w.converge(t).Conditions["shop"]; got.Status != before.Status {
				t.Errorf("after the outage, with the permission: condition %+v, before %+v", got, before)
			}
		})
	}
}

// unwiredWithoutProxy returns the object after it has converged.
func (w *fixture) unwiredWithoutProxy(t *testing.T) string {
	t.Helper()
	w.converge(t)
	return strings.ReplaceAll(w.stored[0], "http.kedify.io", "")
}

// TestClassIsReadLater has a wired Ingress whose class turns out to need NodePorts.
func TestClassIsReadLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t, strings.Replace(store("/"), "spec: {", "spec: {ingressClassName: public, ", 1))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	expect := func(when, want string) {
		t.Helper()
		if got := w.converge(t).Conditions["shop"]; got.Reason != want {
			t.Errorf("%s: condition %+v, want %s", when, got, want)
		}
	}
	expect("no class", httpv1alpha1.ReasonWired)
	w.Unreadable = map[trigger.AutowireKind]string{trigger.AutowireIngress: "kind X cannot be read"}
	expect("classes cannot be read", httpv1alpha1.ReasonWired)
	w.Unreadable, w.Classes = nil, autowire.ClassesOf([]networkingv1.IngressClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "public"}, Spec: networkingv1.IngressClassSpec{Controller: "ingress.k8s.aws/alb"},
	}})
	expect("classes can be read", httpv1alpha1.ReasonServiceTypeMismatch)
	if strings.Contains(w.stored[0], `"name":"kedify-proxy"`) {
		t.Errorf("it is wired:\n%s", asYAML(t, w.stored[0]))
	}
}
