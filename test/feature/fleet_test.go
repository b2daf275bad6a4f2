package feature

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// Addresses of proxies of other namespaces than apps.
const (
	otherProxy   = "127.0.0.21"
	sharedProxy  = "127.0.0.22"
	strangeProxy = "127.0.0.23"
)

// tenant stores a Service with an endpoint and an HTTPScaledObject for the host of shop, in a namespace of its own.
func (c *cluster) tenant(namespace string, rank int) *httpv1alpha1.HTTPScaledObject {
	c.t.Helper()
	object := kit.NewScaledObject(namespace, namespace, "web", rank, host)
	object.UID = types.UID("uid-of-" + namespace)
	c.store(kit.NewService(namespace, "web"), kit.NewEndpointSlice(namespace, "web", "10.1.0.1"), object)
	return object
}

// onlyOf says whether what a proxy has is of one namespace.
func onlyOf(namespace string, state kit.XDSState) bool {
	for _, versions := range state.Versions {
		for name := range versions {
			if owner, _, isOwned := strings.Cut(name, "/"); isOwned && owner != namespace {
				return false
			}
		}
	}
	return true
}

// TestTwoNamespacesHaveTheSameHost has three objects ask for one host: in two namespaces, and in a third one for the shared proxies.
func TestTwoNamespacesHaveTheSameHost(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.1")
			world.app("shop-canary", "10.0.0.9")
			world.store(shopAt(20))
			world.tenant("other", 2)
			shared := kit.WithAnnotation(world.tenant("third", 3), httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
			world.store(shared)
			world.joins("other", otherProxy, true)
			world.joins(sharedFleet, sharedProxy, true)
			r := world.start()
			here := world.proxy(r, mode, firstProxy)
			there := kit.NewXDSClient(t, world.dial(r, otherProxy), mode)
			among := kit.NewXDSClient(t, world.dial(r, sharedProxy), mode)

			here.WaitFor(at(20))
			there.WaitFor(hasShares(host, map[string]uint32{"other/other/web": 100}))
			among.WaitFor(hasShares(host, map[string]uint32{"third/third/web": 100}))
			for _, tenant := range []string{"shop", "other", "third"} {
				world.waitForCondition(tenant, "Accepted", "True", "Accepted")
			}
			world.waitForReport(shopAt(20), "1/1 effective")
			world.waitForStatus("other", "1/1", proxyCounts)
			world.waitForStatus("third", "1/1", proxyCounts)

			delivered := len(there.State().Deliveries)
			for _, weight := range []uint32{50, 80} {
				world.store(shopAt(weight))
				here.WaitFor(at(weight))
				world.waitForReport(shopAt(weight), "1/1 effective")
			}
			// A later change of its own tells that nothing else came before it.
			world.store(kit.NewEndpointSlice("other", "web", "10.1.0.2"))
			state := there.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, "other/other/web"), []string{"10.1.0.2"})
			})
			if got := len(state.Deliveries) - delivered; got != 1 {
				t.Errorf("weights of another namespace cost this one %d responses", got-1)
			}
			for namespace, state := range map[string]kit.XDSState{"apps": here.State(), "other": state, "third": among.State()} {
				if !onlyOf(namespace, state) {
					t.Errorf("the proxy of %s has resources of others: %v", namespace, state.Versions)
				}
			}
		})
	}
}

// TestAProxyThatEndsTakesNoNewConnections has the Pod of a proxy end: it loses its listener, and gets weights as before.
func TestAProxyThatEndsTakesNoNewConnections(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world := newCluster(t)
			world.app("shop-stable", "10.0.0.1")
			world.app("shop-canary", "10.0.0.9")
			world.store(shopAt(20))
			r := world.start()
			proxy := world.proxy(r, mode, firstProxy)
			before := proxy.WaitFor(at(20))
			if before.Listeners[translate.ListenerName] == nil {
				t.Fatalf("listeners %v", before.Listeners)
			}
			world.ends("apps", firstProxy)
			proxy.WaitFor(func(state kit.XDSState) bool {
				return state.Listeners[translate.ListenerName] == nil && len(state.Listeners) == len(before.Listeners)-1
			})
			world.store(shopAt(50))
			if state := proxy.WaitFor(at(50)); state.Listeners[translate.ListenerName] != nil {
				t.Error("the listener is back")
			}
		})
	}
}

// proxyCounts is ready/acked.
func proxyCounts(is httpv1alpha1.HTTPScaledObjectStatus) string {
	if is.DataPlane == nil {
		return "no report"
	}
	counts := is.DataPlane.Proxies
	return fmt.Sprintf("%d/%d", counts.Ready, counts.Acked)
}

// TestAnObjectMovesBetweenFleets takes shop from the proxies of its namespace to the shared ones and back.
func TestAnObjectMovesBetweenFleets(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.joins(sharedFleet, sharedProxy, true)
	r := world.start()
	own := world.proxy(r, kit.XDSDelta, firstProxy)
	shared := kit.NewXDSClient(t, world.dial(r, sharedProxy), kit.XDSDelta)
	own.WaitFor(at(20))
	moved := kit.WithAnnotation(shopAt(20), httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
	world.store(moved)
	shared.WaitFor(at(20))
	own.WaitFor(func(state kit.XDSState) bool { return shares(state, host) == nil && state.Clusters[canary] == nil })
	world.waitForReport(moved, "1/1 effective")
	world.store(shopAt(30))
	own.WaitFor(at(30))
	shared.WaitFor(func(state kit.XDSState) bool { return shares(state, host) == nil && state.Clusters[canary] == nil })
	world.waitForReport(shopAt(30), "1/1 effective")
}

// TestAStrangerIsRefused connects from an address that no fleet has.
func TestAStrangerIsRefused(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.patience = xds.DefaultMembershipTimeout
	r := world.start()
	stranger := kit.NewXDSClient(t, world.dial(r, strangeProxy), kit.XDSDelta)
	state := stranger.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	const want = "no fleet has a proxy with the address " + strangeProxy + "; see the guide"
	if status.Code(state.StreamError) != codes.PermissionDenied || status.Convert(state.StreamError).Message() != want {
		t.Errorf("the stream ended with %v, want PermissionDenied: %s", state.StreamError, want)
	}
	if logged := r.logged.String(); !strings.Contains(logged, strangeProxy) || !strings.Contains(logged, "see the guide") {
		t.Errorf("the log says\n%s", logged)
	}
	if len(state.Deliveries) > 0 {
		t.Errorf("a stranger was sent %v", state.Deliveries)
	}
	world.joins("apps", strangeProxy, true)
	world.waitForStatus("other", "1/0", proxyCounts) // The address is known by then.
	stranger.Reconnect(world.dial(r, strangeProxy))
	stranger.WaitFor(at(20))
}

// TestAnAddressThatBecomesKnownIsServed has the news of a proxy come after its connection, which is kept waiting.
func TestAnAddressThatBecomesKnownIsServed(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	r := world.start()
	early := kit.NewXDSClient(t, world.dial(r, strangeProxy), kit.XDSDelta)
	world.joins("apps", strangeProxy, false)
	if state := early.WaitFor(at(20)); state.StreamError != nil {
		t.Errorf("the stream ended: %v", state.StreamError)
	}
}

// TestAnAddressOfTwoNamespacesIsNobodys: a tenant that puts another one's proxy among its own learns nothing of it, nor does the proxy.
func TestAnAddressOfTwoNamespacesIsNobodys(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.tenant("other", 2)
	world.patience = xds.DefaultMembershipTimeout
	world.joins("apps", firstProxy, true)
	r := world.start()
	proxy := world.proxy(r, kit.XDSDelta, firstProxy)
	proxy.WaitFor(at(20))
	world.joins("other", firstProxy, true)
	world.waitForStatus("other", "1/0", proxyCounts)
	world.store(shopAt(50))
	proxy.WaitFor(at(50)) // It goes on.
	proxy.Reconnect(world.dial(r, firstProxy))
	state := proxy.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	if !strings.Contains(state.StreamError.Error(), "several fleets: apps, other") {
		t.Errorf("the stream ended with %v", state.StreamError)
	}
}

// TestAnAddressThatMovesIsServedAnew: the address of a Pod that is gone is given to one of another namespace.
func TestAnAddressThatMovesIsServedAnew(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.tenant("other", 2)
	r := world.start()
	proxy := world.proxy(r, kit.XDSDelta, firstProxy)
	proxy.WaitFor(at(20))
	world.leaves("apps", firstProxy)
	world.store(shopAt(50))
	proxy.WaitFor(at(50)) // What is not known any more goes on.
	world.joins("other", firstProxy, true)
	state := proxy.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	if status.Code(state.StreamError) != codes.Unavailable || !strings.Contains(state.StreamError.Error(), `to fleet "other"`) {
		t.Errorf("the stream ended with %v", state.StreamError)
	}
	fresh := kit.NewXDSClient(t, world.dial(r, firstProxy), kit.XDSDelta)
	if state := fresh.WaitFor(hasShares(host, map[string]uint32{"other/other/web": 100})); !onlyOf("other", state) {
		t.Errorf("the proxy has resources of others: %v", state.Versions)
	}
}

// TestANamespaceOverItsBound has one object too many, which is told so; another namespace goes on.
func TestANamespaceOverItsBound(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.options.MaxObjects = 2
	late := kit.NewScaledObject("apps", "late", "other", 3, "late.test")
	late.UID = "u3"
	world.store(late)
	world.tenant("third", 4)
	world.joins("third", otherProxy, true)
	r := world.start()
	proxy := world.proxy(r, kit.XDSDelta, firstProxy)
	there := kit.NewXDSClient(t, world.dial(r, otherProxy), kit.XDSDelta)
	says := world.waitForCondition("late", "Accepted", "False", httpv1alpha1.ReasonNamespaceLimit)
	for _, part := range []string{`namespace "apps"`, "2 HTTPScaledObjects", "--max-objects-per-namespace"} {
		if !strings.Contains(says, part) {
			t.Errorf("the condition says %q, which lacks %q", says, part)
		}
	}
	world.waitForEvents("late Warning " + httpv1alpha1.ReasonNamespaceLimit)
	there.WaitFor(hasShares(host, map[string]uint32{"third/third/web": 100}))
	if state := proxy.WaitFor(at(20)); shares(state, "late.test") != nil {
		t.Error("what is over the bound is served")
	}

	world.scaledObjects.Delete(kit.NewScaledObject("apps", "other", "other", 2, "other.test"))
	proxy.WaitFor(hasShares("late.test", map[string]uint32{"apps/late/other": 100}))
	world.waitForCondition("late", "Accepted", "True", "Accepted")
}
