package feature

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

const (
	host   = "shop.test"
	stable = "apps/shop/shop-stable"
	canary = "apps/shop/shop-canary"
)

// shop returns an HTTPScaledObject without a canary.
func shop() *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject("apps", "shop", "shop-stable", 1, host)
	object.UID, object.Generation = "u1", 1
	return object
}

// shopAt returns shop with a canary of a weight.
func shopAt(weight uint32) *httpv1alpha1.HTTPScaledObject {
	return kit.WithSplit(shop(),
		split.Backend{Service: "shop-stable", Weight: 100 - weight}, split.Backend{Service: "shop-canary", Weight: weight})
}

// hasCanaryWeight is a condition: host has a canary of this weight.
func hasCanaryWeight(weight uint32) func(kit.XDSState) bool {
	return hasWeights(host, map[string]uint32{stable: 100 - weight, canary: weight})
}

// hasWeights is a condition: the clusters of a host have these weights.
func hasWeights(host string, want map[string]uint32) func(kit.XDSState) bool {
	return func(state kit.XDSState) bool { return maps.Equal(weights(state, host), want) }
}

// checkNotBroken fails the test if a route ever named a cluster that could not accept requests.
func checkNotBroken(t *testing.T, state kit.XDSState) {
	t.Helper()
	if len(state.Broken) > 0 {
		t.Errorf("routes came before their clusters: %q", state.Broken)
	}
}

func TestEmptyCluster(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			proxy := kit.NewXDSClient(t, newCluster(t).start().conn, mode)
			proxy.WaitFor(func(state kit.XDSState) bool {
				return state.Delivered(resourcev3.ClusterType) > 0 && state.Listeners[translate.ListenerName] != nil
			})
		})
	}
}

func TestObjectIsTranslated(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			proxy := kit.NewXDSClient(t, cluster.start().conn, mode)
			cluster.storeService("shop-stable", "10.0.0.1", "10.0.0.2")
			cluster.store(shop())
			state := proxy.WaitFor(hasWeights(host, map[string]uint32{stable: 100}))
			if state.Listeners[translate.ListenerName] == nil || state.Clusters[stable] == nil {
				t.Errorf("incomplete: %s", state)
			}
			// Two watches have no order: the object may arrive before the EndpointSlice.
			proxy.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, stable), []string{"10.0.0.1", "10.0.0.2"})
			})
			checkNotBroken(t, state)
			cluster.waitForCondition("shop", "Accepted", "True", "Accepted")
			cluster.waitForCondition("shop", "Ready", "True", "Serving")

			cluster.store(kit.NewEndpointSlice("apps", "shop-stable", "10.0.0.3"))
			proxy.WaitFor(
				func(state kit.XDSState) bool { return slices.Equal(addresses(state, stable), []string{"10.0.0.3"}) },
			)
		})
	}
}

func TestCanary(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.1")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.store(shop())
			proxy := kit.NewXDSClient(t, cluster.start().conn, mode)
			before := proxy.WaitFor(hasWeights(host, map[string]uint32{stable: 100}))

			for _, weight := range []uint32{0, 20, 50, 80, 100} {
				cluster.store(shopAt(weight))
				state := proxy.WaitFor(hasCanaryWeight(weight))
				if got := addresses(state, canary); !slices.Equal(got, []string{"10.0.0.9"}) {
					t.Errorf("at %d the canary's endpoints are %q", weight, got)
				}
			}
			cluster.store(shop())
			state := proxy.WaitFor(func(state kit.XDSState) bool {
				return hasWeights(host, map[string]uint32{stable: 100})(state) && state.Clusters[canary] == nil &&
					state.Endpoints[canary] == nil
			})
			checkNotBroken(t, state)
			if got, want := state.Delivered(resourcev3.ListenerType), before.Delivered(resourcev3.ListenerType); got != want {
				t.Errorf("the listener was sent %d times during the canary: every connection would have been drained", got-want)
			}
			cluster.waitForCondition("shop", "Accepted", "True", "Accepted")
		})
	}
}

func TestWeightStepSendsRoutesOnly(t *testing.T) {
	cluster := newCluster(t)
	cluster.storeService("shop-stable", "10.0.0.1")
	cluster.storeService("shop-canary", "10.0.0.9")
	cluster.store(shopAt(20))
	for i := range 50 {
		name := fmt.Sprintf("other-%d", i)
		cluster.storeService(name, "10.0.1.1")
		cluster.store(kit.NewScaledObject("apps", name, name, 2+i, name+".test"))
	}
	proxy := kit.NewXDSClient(t, cluster.start().conn, kit.XDSDelta)
	before := proxy.WaitFor(
		func(state kit.XDSState) bool { return hasCanaryWeight(20)(state) && len(state.Clusters) == 52 },
	)
	cluster.store(shopAt(50))
	state := proxy.WaitFor(hasCanaryWeight(50))
	for _, delivery := range state.Deliveries[len(before.Deliveries):] {
		if delivery.TypeURL != resourcev3.ScopedRouteType || !slices.Equal(delivery.Names, []string{host}) {
			t.Errorf("a weight step sent %s %q", delivery.TypeURL, delivery.Names)
		}
	}
}

func TestCanaryWithoutEndpoints(t *testing.T) {
	cluster := newCluster(t)
	cluster.storeService("shop-stable", "10.0.0.1")
	cluster.storeService("shop-canary")
	cluster.store(shopAt(20))
	proxy := kit.NewXDSClient(t, cluster.start().conn, kit.XDSDelta)
	proxy.WaitFor(hasCanaryWeight(0))
	cluster.storeService("shop-canary", "10.0.0.9")
	checkNotBroken(t, proxy.WaitFor(hasCanaryWeight(20)))
}

func TestInvalidAnnotationKeepsLastGoodSplit(t *testing.T) {
	tests := map[string]struct{ annotation, reason string }{
		"not a list":       {"80/20", httpv1alpha1.ReasonInvalidWeightedBackends},
		"all weights zero": {"[{service: shop-stable, weight: 0}]", httpv1alpha1.ReasonInvalidWeightedBackends},
		"a missing Service": {
			"[{service: shop-stable, weight: 50}, {service: nowhere, weight: 50}]", httpv1alpha1.ReasonServiceNotFound,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.1")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.storeService("other", "10.0.1.1")
			cluster.storeService("other-2", "10.0.1.2")
			cluster.store(shopAt(20), kit.NewScaledObject("apps", "other", "other", 2, "other.test"))
			proxy := kit.NewXDSClient(t, cluster.start().conn, kit.XDSDelta)
			proxy.WaitFor(hasCanaryWeight(20))

			cluster.store(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, test.annotation))
			cluster.waitForCondition("shop", "Accepted", "False", test.reason)
			cluster.waitForCondition("shop", "Ready", "False", httpv1alpha1.ReasonNotAccepted)
			cluster.store(kit.NewScaledObject("apps", "other", "other-2", 2, "other.test"))
			state := proxy.WaitFor(hasWeights("other.test", map[string]uint32{"apps/other/other-2": 100}))
			if !hasCanaryWeight(20)(state) {
				t.Errorf("the split is %v, want the last good one", weights(state, host))
			}
			cluster.storeService("shop-canary", "10.0.0.8")
			proxy.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, canary), []string{"10.0.0.8"}) && hasCanaryWeight(20)(state)
			})

			cluster.store(shopAt(50))
			checkNotBroken(t, proxy.WaitFor(hasCanaryWeight(50)))
			cluster.waitForCondition("shop", "Accepted", "True", "Accepted")
			cluster.waitForEvents("shop Warning "+test.reason, "shop Normal Accepted")
		})
	}
}

func TestRestartServesSameResources(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.1")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.store(shopAt(20))
			first := cluster.start()
			proxy := kit.NewXDSClient(t, first.conn, mode)
			before := proxy.WaitFor(hasCanaryWeight(20))
			first.stop()

			second := cluster.start()
			proxy.Reconnect(second.conn)
			cluster.store(shopAt(50))
			state := proxy.WaitFor(hasCanaryWeight(50))
			checkNotBroken(t, state)
			for _, typeURL := range []string{resourcev3.ClusterType, resourcev3.ListenerType} {
				if diff := cmp.Diff(before.Versions[typeURL], state.Versions[typeURL]); diff != "" {
					t.Errorf("versions of %s (-before +after):\n%s", typeURL, diff)
				}
			}
			for _, delivery := range state.Deliveries[len(before.Deliveries):] {
				if len(delivery.Removed) > 0 {
					t.Errorf("the restart removed %q", delivery.Removed)
				}
			}
		})
	}
}

// TestRestartKeepsLastGoodWeight starts an interceptor with an invalid annotation, after the canary had all requests.
func TestRestartKeepsLastGoodWeight(t *testing.T) {
	cluster := newCluster(t)
	cluster.storeService("shop-stable", "10.0.0.1")
	cluster.storeService("shop-canary", "10.0.0.9")
	cluster.store(shopAt(100))
	first := cluster.start()
	proxy := kit.NewXDSClient(t, first.conn, kit.XDSDelta)
	proxy.WaitFor(hasCanaryWeight(100))
	broken := kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, "100")
	cluster.store(broken)
	cluster.waitForCondition("shop", "Accepted", "False", "InvalidWeightedBackends")
	first.stop()
	cluster.mu.Lock()
	broken.Status = cluster.statuses["shop"]
	cluster.mu.Unlock()
	cluster.store(broken)

	second := cluster.start()
	proxy.Reconnect(second.conn)
	other := kit.NewScaledObject("apps", "other", "shop-stable", 2, "other.test")
	cluster.store(other)
	state := proxy.WaitFor(func(state kit.XDSState) bool { return len(weights(state, "other.test")) > 0 })
	if !hasCanaryWeight(100)(state) {
		t.Errorf("after the restart the weights are %v", weights(state, host))
	}
	checkNotBroken(t, state)
}

func TestReplicasServeSameResources(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.2", "10.0.0.1", "10.0.0.3")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.store(shopAt(20))
			var versions []map[string]map[string]string
			for _, each := range []*replica{cluster.start(), cluster.start()} {
				proxy := kit.NewXDSClient(t, each.conn, mode)
				proxy.WaitFor(hasCanaryWeight(20))
				versions = append(
					versions, proxy.WaitFor(func(state kit.XDSState) bool { return len(state.Warming) == 0 }).Versions,
				)
			}
			if diff := cmp.Diff(versions[0], versions[1]); diff != "" {
				t.Errorf("versions of two replicas (-first +second):\n%s", diff)
			}
		})
	}
}
