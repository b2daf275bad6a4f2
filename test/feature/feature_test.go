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

// shop is an HTTPScaledObject without a canary.
func shop() *httpv1alpha1.HTTPScaledObject {
	object := kit.NewScaledObject("apps", "shop", "shop-stable", 1, host)
	object.UID, object.Generation = "u1", 1
	return object
}

// shopAt is shop with a canary at a weight.
func shopAt(weight uint32) *httpv1alpha1.HTTPScaledObject {
	return kit.WithSplit(shop(), split.Backend{Service: "shop-stable", Weight: 100 - weight}, split.Backend{Service: "shop-canary", Weight: weight})
}

// at says that requests for host are shared with the canary at a weight.
func at(weight uint32) func(kit.XDSState) bool {
	return hasShares(host, map[string]uint32{stable: 100 - weight, canary: weight})
}

// hasShares says whether the requests for a host are shared as wanted.
func hasShares(host string, want map[string]uint32) func(kit.XDSState) bool {
	return func(state kit.XDSState) bool { return maps.Equal(shares(state, host), want) }
}

// unbroken fails the test when routes ever named a cluster that could not take requests.
func unbroken(t *testing.T, state kit.XDSState) {
	t.Helper()
	if len(state.Broken) > 0 {
		t.Errorf("routes came before their clusters: %q", state.Broken)
	}
}

func TestAnEmptyClusterIsAnswered(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			proxy := kit.NewXDSClient(t, newCluster(t).start().conn, mode)
			proxy.WaitFor(func(state kit.XDSState) bool {
				return state.Delivered(resourcev3.ClusterType) > 0 && state.Listeners[translate.ListenerName] != nil
			})
		})
	}
}

func TestAnObjectBecomesAListenerRoutesClustersAndEndpoints(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			proxy := kit.NewXDSClient(t, world.start().conn, mode)
			world.app("shop-stable", "10.0.0.1", "10.0.0.2")
			world.store(shop())
			state := proxy.WaitFor(hasShares(host, map[string]uint32{stable: 100}))
			if state.Listeners[translate.ListenerName] == nil || state.Clusters[stable] == nil {
				t.Errorf("incomplete: %s", state)
			}
			// The object may be seen before the EndpointSlice: nothing orders two watches.
			proxy.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, stable), []string{"10.0.0.1", "10.0.0.2"})
			})
			unbroken(t, state)
			world.waitForCondition("shop", "Accepted", "True", "Accepted")
			world.waitForCondition("shop", "Ready", "True", "Serving")

			world.store(kit.NewEndpointSlice("apps", "shop-stable", "10.0.0.3"))
			proxy.WaitFor(func(state kit.XDSState) bool { return slices.Equal(addresses(state, stable), []string{"10.0.0.3"}) })
		})
	}
}

func TestACanaryFromStartToEnd(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.1")
			world.app("shop-canary", "10.0.0.9")
			world.store(shop())
			proxy := kit.NewXDSClient(t, world.start().conn, mode)
			before := proxy.WaitFor(hasShares(host, map[string]uint32{stable: 100}))

			for _, weight := range []uint32{0, 20, 50, 80, 100} {
				world.store(shopAt(weight))
				state := proxy.WaitFor(at(weight))
				if got := addresses(state, canary); !slices.Equal(got, []string{"10.0.0.9"}) {
					t.Errorf("at %d the canary's endpoints are %q", weight, got)
				}
			}
			world.store(shop())
			state := proxy.WaitFor(func(state kit.XDSState) bool {
				return hasShares(host, map[string]uint32{stable: 100})(state) && state.Clusters[canary] == nil && state.Endpoints[canary] == nil
			})
			unbroken(t, state)
			if got, want := state.Delivered(resourcev3.ListenerType), before.Delivered(resourcev3.ListenerType); got != want {
				t.Errorf("the listener was sent %d times during the canary: every connection would have been drained", got-want)
			}
			world.waitForCondition("shop", "Accepted", "True", "Accepted")
		})
	}
}

func TestAWeightStepSendsRoutesOnly(t *testing.T) {
	world := newCluster(t)
	world.app("shop-stable", "10.0.0.1")
	world.app("shop-canary", "10.0.0.9")
	world.store(shopAt(20))
	for i := range 50 {
		name := fmt.Sprintf("other-%d", i)
		world.app(name, "10.0.1.1")
		world.store(kit.NewScaledObject("apps", name, name, 2+i, name+".test"))
	}
	proxy := kit.NewXDSClient(t, world.start().conn, kit.XDSDelta)
	before := proxy.WaitFor(func(state kit.XDSState) bool { return at(20)(state) && len(state.Clusters) == 52 })
	world.store(shopAt(50))
	state := proxy.WaitFor(at(50))
	for _, delivery := range state.Deliveries[len(before.Deliveries):] {
		if delivery.TypeURL != resourcev3.ScopedRouteType || !slices.Equal(delivery.Names, []string{host}) {
			t.Errorf("a weight step sent %s %q", delivery.TypeURL, delivery.Names)
		}
	}
}

func TestACanaryWithoutEndpointsGetsNothing(t *testing.T) {
	world := newCluster(t)
	world.app("shop-stable", "10.0.0.1")
	world.app("shop-canary")
	world.store(shopAt(20))
	proxy := kit.NewXDSClient(t, world.start().conn, kit.XDSDelta)
	proxy.WaitFor(at(0))
	world.app("shop-canary", "10.0.0.9")
	unbroken(t, proxy.WaitFor(at(20)))
}

func TestABadAnnotationKeepsTheLastGoodSplit(t *testing.T) {
	tests := map[string]struct{ annotation, reason string }{
		"not a list":        {"80/20", httpv1alpha1.ReasonInvalidWeightedBackends},
		"all weights zero":  {"[{service: shop-stable, weight: 0}]", httpv1alpha1.ReasonInvalidWeightedBackends},
		"a missing Service": {"[{service: shop-stable, weight: 50}, {service: nowhere, weight: 50}]", httpv1alpha1.ReasonServiceNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.1")
			world.app("shop-canary", "10.0.0.9")
			world.app("other", "10.0.1.1")
			world.app("other-2", "10.0.1.2")
			world.store(shopAt(20), kit.NewScaledObject("apps", "other", "other", 2, "other.test"))
			proxy := kit.NewXDSClient(t, world.start().conn, kit.XDSDelta)
			proxy.WaitFor(at(20))

			world.store(kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, test.annotation))
			world.waitForCondition("shop", "Accepted", "False", test.reason)
			world.waitForCondition("shop", "Ready", "False", httpv1alpha1.ReasonNotAccepted)
			world.store(kit.NewScaledObject("apps", "other", "other-2", 2, "other.test"))
			state := proxy.WaitFor(hasShares("other.test", map[string]uint32{"apps/other/other-2": 100}))
			if !at(20)(state) {
				t.Errorf("the split is %v, want the last good one", shares(state, host))
			}
			world.app("shop-canary", "10.0.0.8")
			proxy.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, canary), []string{"10.0.0.8"}) && at(20)(state)
			})

			world.store(shopAt(50))
			unbroken(t, proxy.WaitFor(at(50)))
			world.waitForCondition("shop", "Accepted", "True", "Accepted")
			world.waitForEvents("shop Warning "+test.reason, "shop Normal Accepted")
		})
	}
}

func TestARestartedInterceptorServesTheSame(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.1")
			world.app("shop-canary", "10.0.0.9")
			world.store(shopAt(20))
			first := world.start()
			proxy := kit.NewXDSClient(t, first.conn, mode)
			before := proxy.WaitFor(at(20))
			first.stop()

			second := world.start()
			proxy.Reconnect(second.conn)
			world.store(shopAt(50))
			state := proxy.WaitFor(at(50))
			unbroken(t, state)
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

// TestARestartKeepsTheLastGoodWeight starts an interceptor while the annotation has a mistake, after
// everything was given to the canary.
func TestARestartKeepsTheLastGoodWeight(t *testing.T) {
	world := newCluster(t)
	world.app("shop-stable", "10.0.0.1")
	world.app("shop-canary", "10.0.0.9")
	world.store(shopAt(100))
	first := world.start()
	proxy := kit.NewXDSClient(t, first.conn, kit.XDSDelta)
	proxy.WaitFor(at(100))
	broken := kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, "100")
	world.store(broken)
	world.waitForCondition("shop", "Accepted", "False", "InvalidWeightedBackends")
	first.stop()
	world.mu.Lock()
	broken.Status = world.statuses["shop"]
	world.mu.Unlock()
	world.store(broken)

	second := world.start()
	proxy.Reconnect(second.conn)
	other := kit.NewScaledObject("apps", "other", "shop-stable", 2, "other.test")
	world.store(other)
	state := proxy.WaitFor(func(state kit.XDSState) bool { return len(shares(state, "other.test")) > 0 })
	if !at(100)(state) {
		t.Errorf("after the restart requests are shared as %v", shares(state, host))
	}
	unbroken(t, state)
}

func TestReplicasServeTheSame(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.2", "10.0.0.1", "10.0.0.3")
			world.app("shop-canary", "10.0.0.9")
			world.store(shopAt(20))
			var versions []map[string]map[string]string
			for _, each := range []*replica{world.start(), world.start()} {
				proxy := kit.NewXDSClient(t, each.conn, mode)
				proxy.WaitFor(at(20))
				versions = append(versions, proxy.WaitFor(func(state kit.XDSState) bool { return len(state.Warming) == 0 }).Versions)
			}
			if diff := cmp.Diff(versions[0], versions[1]); diff != "" {
				t.Errorf("versions of two replicas (-first +second):\n%s", diff)
			}
		})
	}
}
