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
	unknownProxy = "127.0.0.23"
)

// storeTenant stores a Service with an endpoint and an HTTPScaledObject for the host of shop, in another namespace.
func (c *fakeCluster) storeTenant(namespace string, rank int) *httpv1alpha1.HTTPScaledObject {
	c.t.Helper()
	object := kit.NewScaledObject(namespace, namespace, "web", rank, host)
	object.UID = types.UID("uid-of-" + namespace)
	c.store(kit.NewService(namespace, "web"), kit.NewEndpointSlice(namespace, "web", "10.1.0.1"), object)
	return object
}

// hasOnly reports whether a proxy has resources of one namespace only.
func hasOnly(namespace string, state kit.XDSState) bool {
	for _, versions := range state.Versions {
		for name := range versions {
			if owner, _, isOwned := strings.Cut(name, "/"); isOwned && owner != namespace {
				return false
			}
		}
	}
	return true
}

// TestSameHostInTwoNamespaces has three objects with the same host: in two namespaces, and in a third one for the
// shared proxies.
func TestSameHostInTwoNamespaces(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.1")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.store(shopAt(20))
			cluster.storeTenant("other", 2)
			sharedObject := kit.WithAnnotation(
				cluster.storeTenant("third", 3), httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared,
			)
			cluster.store(sharedObject)
			cluster.addProxy("other", otherProxy, true)
			cluster.addProxy(sharedFleet, sharedProxy, true)
			r := cluster.start()
			own := cluster.proxy(r, mode, firstProxy)
			other := kit.NewXDSClient(t, cluster.dial(r, otherProxy), mode)
			shared := kit.NewXDSClient(t, cluster.dial(r, sharedProxy), mode)

			own.WaitFor(hasCanaryWeight(20))
			other.WaitFor(hasWeights(host, map[string]uint32{"other/other/web": 100}))
			shared.WaitFor(hasWeights(host, map[string]uint32{"third/third/web": 100}))
			for _, tenant := range []string{"shop", "other", "third"} {
				cluster.waitForCondition(tenant, "Accepted", "True", "Accepted")
			}
			cluster.waitForReport(shopAt(20), "1/1 effective")
			cluster.waitForStatus("other", "1/1", proxyCounts)
			cluster.waitForStatus("third", "1/1", proxyCounts)

			delivered := len(other.State().Deliveries)
			for _, weight := range []uint32{50, 80} {
				cluster.store(shopAt(weight))
				own.WaitFor(hasCanaryWeight(weight))
				cluster.waitForReport(shopAt(weight), "1/1 effective")
			}
			// After a later change of its own, all earlier responses have arrived.
			cluster.store(kit.NewEndpointSlice("other", "web", "10.1.0.2"))
			state := other.WaitFor(func(state kit.XDSState) bool {
				return slices.Equal(addresses(state, "other/other/web"), []string{"10.1.0.2"})
			})
			if got := len(state.Deliveries) - delivered; got != 1 {
				t.Errorf("weights of another namespace caused %d responses in this one", got-1)
			}
			for namespace, state := range map[string]kit.XDSState{
				"apps": own.State(), "other": state, "third": shared.State(),
			} {
				if !hasOnly(namespace, state) {
					t.Errorf("the proxy of %s has resources of others: %v", namespace, state.Versions)
				}
			}
		})
	}
}

// TestTerminatingProxyAcceptsNoNewConnections terminates the Pod of a proxy: it loses its listener, and still receives
// weights.
func TestTerminatingProxyAcceptsNoNewConnections(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.storeService("shop-stable", "10.0.0.1")
			cluster.storeService("shop-canary", "10.0.0.9")
			cluster.store(shopAt(20))
			r := cluster.start()
			proxy := cluster.proxy(r, mode, firstProxy)
			before := proxy.WaitFor(hasCanaryWeight(20))
			if before.Listeners[translate.ListenerName] == nil {
				t.Fatalf("listeners %v", before.Listeners)
			}
			cluster.terminateProxy("apps", firstProxy)
			proxy.WaitFor(func(state kit.XDSState) bool {
				return state.Listeners[translate.ListenerName] == nil && len(state.Listeners) == len(before.Listeners)-1
			})
			cluster.store(shopAt(50))
			if state := proxy.WaitFor(hasCanaryWeight(50)); state.Listeners[translate.ListenerName] != nil {
				t.Error("the listener is back")
			}
		})
	}
}

// proxyCounts returns ready/acked.
func proxyCounts(s httpv1alpha1.HTTPScaledObjectStatus) string {
	if s.DataPlane == nil {
		return "no report"
	}
	counts := s.DataPlane.Proxies
	return fmt.Sprintf("%d/%d", counts.Ready, counts.Acked)
}

// TestObjectMovesBetweenFleets moves shop from the proxies of its namespace to the shared ones and back.
func TestObjectMovesBetweenFleets(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.addProxy(sharedFleet, sharedProxy, true)
	r := cluster.start()
	own := cluster.proxy(r, kit.XDSDelta, firstProxy)
	shared := kit.NewXDSClient(t, cluster.dial(r, sharedProxy), kit.XDSDelta)
	own.WaitFor(hasCanaryWeight(20))
	moved := kit.WithAnnotation(shopAt(20), httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
	cluster.store(moved)
	shared.WaitFor(hasCanaryWeight(20))
	own.WaitFor(func(state kit.XDSState) bool { return weights(state, host) == nil && state.Clusters[canary] == nil })
	cluster.waitForReport(moved, "1/1 effective")
	cluster.store(shopAt(30))
	own.WaitFor(hasCanaryWeight(30))
	shared.WaitFor(
		func(state kit.XDSState) bool { return weights(state, host) == nil && state.Clusters[canary] == nil },
	)
	cluster.waitForReport(shopAt(30), "1/1 effective")
}

// TestUnknownAddressIsRejected connects from an address that belongs to no fleet.
func TestUnknownAddressIsRejected(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.membershipTimeout = xds.DefaultMembershipTimeout
	r := cluster.start()
	unknown := kit.NewXDSClient(t, cluster.dial(r, unknownProxy), kit.XDSDelta)
	state := unknown.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	const want = "no fleet has a proxy with the address " + unknownProxy + "; see the guide"
	if status.Code(state.StreamError) != codes.PermissionDenied || status.Convert(state.StreamError).Message() != want {
		t.Errorf("the stream ended with %v, want PermissionDenied: %s", state.StreamError, want)
	}
	if log := r.log.String(); !strings.Contains(log, unknownProxy) || !strings.Contains(log, "see the guide") {
		t.Errorf("the log is\n%s", log)
	}
	if len(state.Deliveries) > 0 {
		t.Errorf("an unknown proxy was sent %v", state.Deliveries)
	}
	cluster.addProxy("apps", unknownProxy, true)
	cluster.waitForStatus("other", "1/0", proxyCounts) // The address is known by then.
	unknown.Reconnect(cluster.dial(r, unknownProxy))
	unknown.WaitFor(hasCanaryWeight(20))
}

// TestAddressBecomesKnown connects a proxy before the watch reports its address: the stream waits.
func TestAddressBecomesKnown(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	r := cluster.start()
	early := kit.NewXDSClient(t, cluster.dial(r, unknownProxy), kit.XDSDelta)
	cluster.addProxy("apps", unknownProxy, false)
	if state := early.WaitFor(hasCanaryWeight(20)); state.StreamError != nil {
		t.Errorf("the stream ended: %v", state.StreamError)
	}
}

// TestAddressOfTwoNamespacesIsRejected requires that a tenant that adds the address of another tenant's proxy receives
// nothing, and neither does the proxy.
func TestAddressOfTwoNamespacesIsRejected(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.storeTenant("other", 2)
	cluster.membershipTimeout = xds.DefaultMembershipTimeout
	cluster.addProxy("apps", firstProxy, true)
	r := cluster.start()
	proxy := cluster.proxy(r, kit.XDSDelta, firstProxy)
	proxy.WaitFor(hasCanaryWeight(20))
	cluster.addProxy("other", firstProxy, true)
	cluster.waitForStatus("other", "1/0", proxyCounts)
	cluster.store(shopAt(50))
	proxy.WaitFor(hasCanaryWeight(50)) // The stream continues.
	proxy.Reconnect(cluster.dial(r, firstProxy))
	state := proxy.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	if !strings.Contains(state.StreamError.Error(), "several fleets: apps, other") {
		t.Errorf("the stream ended with %v", state.StreamError)
	}
}

// TestAddressMovesToAnotherFleet reuses the address of a deleted Pod in another namespace.
func TestAddressMovesToAnotherFleet(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.storeTenant("other", 2)
	r := cluster.start()
	proxy := cluster.proxy(r, kit.XDSDelta, firstProxy)
	proxy.WaitFor(hasCanaryWeight(20))
	cluster.removeProxy("apps", firstProxy)
	cluster.store(shopAt(50))
	proxy.WaitFor(hasCanaryWeight(50)) // A stream of an address that becomes unknown continues.
	cluster.addProxy("other", firstProxy, true)
	state := proxy.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	if status.Code(state.StreamError) != codes.Unavailable ||
		!strings.Contains(state.StreamError.Error(), `to fleet "other"`) {
		t.Errorf("the stream ended with %v", state.StreamError)
	}
	fresh := kit.NewXDSClient(t, cluster.dial(r, firstProxy), kit.XDSDelta)
	if state := fresh.WaitFor(hasWeights(host, map[string]uint32{"other/other/web": 100})); !hasOnly("other", state) {
		t.Errorf("the proxy has resources of others: %v", state.Versions)
	}
}

// TestNamespaceLimit has one object too many in a namespace, whose condition reports it. Another namespace is not
// affected.
func TestNamespaceLimit(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.options.MaxObjects = 2
	late := kit.NewScaledObject("apps", "late", "other", 3, "late.test")
	late.UID = "u3"
	cluster.store(late)
	cluster.storeTenant("third", 4)
	cluster.addProxy("third", otherProxy, true)
	r := cluster.start()
	proxy := cluster.proxy(r, kit.XDSDelta, firstProxy)
	other := kit.NewXDSClient(t, cluster.dial(r, otherProxy), kit.XDSDelta)
	message := cluster.waitForCondition("late", "Accepted", "False", httpv1alpha1.ReasonNamespaceLimit)
	for _, part := range []string{`namespace "apps"`, "2 HTTPScaledObjects", "--max-objects-per-namespace"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message of the condition is %q, without %q", message, part)
		}
	}
	cluster.waitForEvents("late Warning " + httpv1alpha1.ReasonNamespaceLimit)
	other.WaitFor(hasWeights(host, map[string]uint32{"third/third/web": 100}))
	if state := proxy.WaitFor(hasCanaryWeight(20)); weights(state, "late.test") != nil {
		t.Error("an object over the limit is served")
	}

	cluster.scaledObjects.Delete(kit.NewScaledObject("apps", "other", "other", 2, "other.test"))
	proxy.WaitFor(hasWeights("late.test", map[string]uint32{"apps/late/other": 100}))
	cluster.waitForCondition("late", "Accepted", "True", "Accepted")
}
