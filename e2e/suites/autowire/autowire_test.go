package autowire

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

const (
	// namespace is the namespace of the guide's objects and of their proxies.
	namespace = "autowired"
	// host replaces the guide's.
	host = "autowired.example.com"
	// direct and proxied are the Services that the fronts' objects point at.
	direct, proxied = "rollouts-demo-stable", "kedify-proxy"
	// immediately and eventually are when the fronts' objects have to point at another Service: right after a change, or
	// some time later.
	immediately, eventually = false, true
	// usualRate is the default number of requests per second through each front; AUTOWIRE_RATE overrides it.
	usualRate = 100
	// gap is how long requests may fail after the backends were reverted because all proxies disappeared at once. The
	// Ingress controller sees that as soon as the agent. It has no endpoint until it has seen the agent's write: 5 to 26
	// of 100 requests per second were lost, and 59 on a busy machine.
	gap = time.Second
	// maxVoid is the maximum number of times that a step may be void because the machine stalled.
	maxVoid = 5
	// loadAfterChange is how long the load continues after each change.
	loadAfterChange = 3 * time.Second
)

// front is an entry point for requests.
type front struct {
	name   string // name of its address
	object string // the object that the agent wires
	// backend is the JSONPath of the Service in the object.
	backend string
}

// fronts returns an Ingress controller, or Istio's ingress gateway, and a Gateway, each of another implementation.
func fronts() []front {
	by, _ := chosen()
	return []front{
		{provider.IngressAddress, by.kind + "/rollouts-demo", by.backend},
		{"autowired", "httproute/rollouts-demo", "{.spec.rules[0].backendRefs[0].name}"},
	}
}

// allKinds returns the kinds of objects of the fronts in the syntax of a trigger.
func allKinds() string {
	by, _ := chosen()
	return by.kind + ",httproute"
}

// TestAutowire wires and unwires an Ingress, or a VirtualService, and an HTTPRoute in every supported way. Requests come
// through both fronts all the time. The steps use one cluster and one app; each starts from the state of the
// previous one.
func TestAutowire(t *testing.T) {
	w := launch(t)
	original := w.specs(t)
	w.checkWiring(t, original)
	w.uninstall(t, original)
	w.loseProxies(t)
}

// checkWiring checks that backends follow the proxies and the user's setting.
func (w *environment) checkWiring(t *testing.T, original []string) {
	t.Helper()
	w.step(t, "there is no ScaledObject yet", direct, immediately, 0, func() {})
	w.step(t, "a ScaledObject comes, and proxies", proxied, eventually, 0, func() { w.applyScaledObject(t) })
	w.checkQueue(t)
	w.step(t, "a canary at 20 %", proxied, immediately, 0, func() { w.canary(t) })
	w.step(t, "the proxies are replaced", proxied, immediately, 0,
		func() { w.restart(t, namespace, "deployment/kedify-proxy") })
	w.step(t, "the agents are killed", proxied, immediately, 0, func() {
		w.Do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--grace-period=0", "--force")
		w.Do(t, "rollout", "status", "-n", "keda", agents)
	})
	if by, _ := chosen(); by.kind != kindIngress { // The demo promotes canaries behind an Ingress.
		w.step(t, "the canary is promoted", proxied, immediately, 0, func() { w.promote(t) })
	}
	w.step(t, "the user disables autowiring", direct, eventually, 0, func() { w.autowire(t, "false") })
	w.checkOriginal(t, original)
	w.step(t, "the user enables autowiring", proxied, eventually, 0, func() { w.autowire(t, allKinds()) })
}

// uninstall lets the agent restore the backends before it is removed, and lets a user restore them without an agent.
func (w *environment) uninstall(t *testing.T, original []string) {
	t.Helper()
	w.step(t, "the agent is about to be uninstalled", direct, eventually, 0,
		func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE=false") })
	w.checkOriginal(t, original)
	w.step(t, "the agent stays", proxied, eventually, 0, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE-") })
	replicas := w.Do(t, "get", "-n", "keda", agents, "-o", "jsonpath={.spec.replicas}")
	w.step(t, "kubectl undoes it, without an agent", direct, eventually, 0, func() {
		w.scaleAgents(t, "0")
		w.rollBack(t)
	})
	w.checkOriginal(t, original)
	w.step(t, "there is an agent again", proxied, eventually, 0, func() { w.scaleAgents(t, replicas) })
}

// loseProxies removes all proxies at once and brings them back.
func (w *environment) loseProxies(t *testing.T) {
	t.Helper()
	w.repeatVoid(t, func() (isVoid bool) {
		isVoid = w.step(t, "the proxies go away", direct, eventually, gap,
			func() { w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=0") })
		w.step(t, "the proxies are back", proxied, eventually, 0, func() {
			w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=2")
			w.Do(t, "rollout", "status", "deployment/kedify-proxy")
		})
		return isVoid
	})
}

// repeatVoid repeats a step that is void.
func (*environment) repeatVoid(t *testing.T, part func() (isVoid bool)) {
	t.Helper()
	for range maxVoid {
		if !part() {
			return
		}
	}
	t.Logf("no verdict: the machine stalled in each of %d rounds", maxVoid)
}
