package autowire

import (
	"strings"
	"testing"
	"time"
)

// TestShared points the HTTPRoute at the shared fleet in the interceptor's namespace, in every possible way, under
// load. An Ingress cannot refer to another namespace and keeps pointing at the app.
func TestShared(t *testing.T) {
	w := launch(t)
	original := w.specs(t)
	step := func(name, backend string, inTime bool, gap time.Duration, change func()) (isVoid bool) {
		t.Helper()
		isVoid = w.stepTo(t, name, []string{direct, backend}, inTime, gap, change)
		want := ""
		if backend == proxied {
			want = "keda"
		}
		if got := w.Do(t, "get", "httproute/rollouts-demo", "-o",
			"jsonpath={.spec.rules[0].backendRefs[0].namespace}"); got != want {
			t.Errorf("%s: the HTTPRoute names namespace %q, want %q", name, got, want)
		}
		return isVoid
	}
	step("a ScaledObject and its annotation", direct, immediately, 0, func() {
		w.applyScaledObject(t, "trafficAutowire: ingress", `trafficAutowire: "false"`)
		w.Do(t, "wait", "httpso/rollouts-demo", "--for=create")
		w.Do(t, "annotate", "httpso/rollouts-demo", "http.kedify.io/fleet=shared")
	})
	step("autowiring is enabled, and proxies become ready", proxied, eventually, 0, func() { w.autowire(t, allKinds()) })
	step("the proxies are replaced", proxied, immediately, 0, func() { w.restart(t, "keda", "deployment/kedify-proxy") })
	step("the user disables autowiring", direct, eventually, 0, func() { w.autowire(t, "false") })
	w.checkOriginal(t, original)
	step("the user enables autowiring", proxied, eventually, 0, func() { w.autowire(t, allKinds()) })
	step("the agent is about to be uninstalled", direct, eventually, 0,
		func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE=false") })
	w.checkOriginal(t, original)
	w.until(t, "no ReferenceGrant", "", func() string { return w.referenceGrants(t) })
	step("the agent stays", proxied, eventually, 0, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE-") })
	step("the proxies go away", direct, eventually, 0,
		func() { w.Do(t, "scale", "-n", "keda", "deployment/kedify-proxy", "--replicas=0") })
	step("the proxies are back", proxied, eventually, 0,
		func() { w.Do(t, "scale", "-n", "keda", "deployment/kedify-proxy", "--replicas=2") })
	// The Gateway must revoke the permission immediately. Its error responses until the agent creates another
	// ReferenceGrant are the lost requests.
	w.repeatVoid(t, func() bool {
		return step("a user deletes the ReferenceGrant", proxied, immediately, gap, func() {
			w.Do(t, "delete", "-n", "keda", "referencegrant", "kedify-proxy-"+namespace)
			w.Do(t, "wait", "-n", "keda", "referencegrant/kedify-proxy-"+namespace, "--for=create")
		})
	})
	w.rollBackRoute(t)
	step("a user undid it with kubectl", proxied, eventually, 0, func() {})
}

// referenceGrants returns the agent's ReferenceGrants.
func (w *environment) referenceGrants(t *testing.T) string {
	t.Helper()
	return w.Do(t, "get", "referencegrants", "-n", "keda", "-l",
		"app.kubernetes.io/managed-by=kedify-http-agent", "-o", "name")
}

// rollBackRoute runs the documented command that restores the HTTPRoute without an agent, and starts the agents again.
func (w *environment) rollBackRoute(t *testing.T) {
	t.Helper()
	replicas := w.Do(t, "get", "-n", "keda", agents, "-o", "jsonpath={.spec.replicas}")
	w.scaleAgents(t, "0")
	for line := range strings.Lines(w.recipe(t, "sh undo")) {
		if strings.Contains(line, "patch httproute") {
			w.runCommands(t, line)
		}
	}
	if got := w.Do(t, "get", "httproute/rollouts-demo", "-o",
		"jsonpath={.spec.rules[0].backendRefs[0]['name','namespace']}"); got != direct {
		t.Errorf("the HTTPRoute names %q, want %q and no namespace", got, direct)
	}
	w.scaleAgents(t, replicas)
}
