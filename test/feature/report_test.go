package feature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// Addresses of two proxies. All of 127.0.0.0/8 is this host.
const (
	firstProxy  = "127.0.0.11"
	secondProxy = "127.0.0.12"
)

// reported says what a report says of an HTTPScaledObject: ready/acked, whether it is effective, and whether it is about the object as it is.
func reported(is httpv1alpha1.HTTPScaledObjectStatus, object *httpv1alpha1.HTTPScaledObject) string {
	report := is.DataPlane
	if report == nil {
		return "no report"
	}
	text := fmt.Sprintf("%d/%d", report.Proxies.Ready, report.Proxies.Acked)
	if report.Effective {
		text += " effective"
	}
	if report.AnnotationHash != split.Hash(object.Annotations[httpv1alpha1.AnnotationWeightedBackends], "") {
		text += " of another annotation"
	}
	return text
}

// waitForStatus waits until the status of an HTTPScaledObject is as wanted.
func (c *cluster) waitForStatus(name, want string, look func(httpv1alpha1.HTTPScaledObjectStatus) string) {
	c.t.Helper()
	c.waitFor(
		func() bool { return look(c.statuses[name]) == want },
		func() string { return fmt.Sprintf("%s has %q, want %q", name, look(c.statuses[name]), want) },
	)
}

// waitForReport waits until what is reported of object is as wanted.
func (c *cluster) waitForReport(object *httpv1alpha1.HTTPScaledObject, want string) {
	c.t.Helper()
	c.waitForStatus(object.Name, want, func(is httpv1alpha1.HTTPScaledObjectStatus) string { return reported(is, object) })
}

// shopAndOther returns a cluster with shop at a weight and another object beside it.
func shopAndOther(t *testing.T, weight uint32) (*cluster, *httpv1alpha1.HTTPScaledObject) {
	t.Helper()
	world := newCluster(t)
	world.app("shop-stable", "10.0.0.1")
	world.app("shop-canary", "10.0.0.9")
	world.app("other", "10.0.1.1")
	other := kit.NewScaledObject("apps", "other", "other", 2, "other.test")
	other.UID = "u2"
	world.store(shopAt(weight), other)
	return world, other
}

func TestAStalledProxyIsReported(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world, other := shopAndOther(t, 20)
			interceptor := world.start()
			world.proxy(interceptor, mode, firstProxy)
			stalling := world.proxy(interceptor, mode, secondProxy)
			world.waitForReport(shopAt(20), "2/2 effective")
			world.waitForReport(other, "2/2 effective")

			stalling.Stall()
			world.store(shopAt(30)) // It waits for this one already, and stands still behind it.
			world.waitForReport(shopAt(30), "2/2 effective")
			world.store(shopAt(50))
			world.waitForReport(shopAt(50), "2/1")
			world.mu.Lock()
			if got := reported(world.statuses["other"], other); got != "2/2 effective" {
				t.Errorf("the other object, which the stalled proxy has as it is, is reported as %q", got)
			}
			world.mu.Unlock()
			stalling.Resume()
			world.waitForReport(shopAt(50), "2/2 effective")
		})
	}
}

func TestAProxyThatIsReadyButNotConnectedHasNothing(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	interceptor := world.start()
	proxy := world.proxy(interceptor, kit.XDSDelta, firstProxy)
	world.waitForReport(shopAt(20), "1/1 effective")
	proxy.Disconnect()
	world.waitForReport(shopAt(20), "1/0")
	proxy.Reconnect(world.dial(interceptor, firstProxy))
	world.waitForReport(shopAt(20), "1/1 effective")
}

func TestARedirectedShareIsNotEffective(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.app("shop-canary")
	world.proxy(world.start(), kit.XDSDelta, firstProxy)
	world.waitForReport(shopAt(20), "1/1")
	world.app("shop-canary", "10.0.0.9")
	world.waitForReport(shopAt(20), "1/1 effective")
}

func TestAWrongAnnotationIsNotEffective(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	world.proxy(world.start(), kit.XDSDelta, firstProxy)
	world.waitForReport(shopAt(20), "1/1 effective")
	wrong := kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, "80/20")
	world.store(wrong)
	world.waitForReport(wrong, "1/0")
}

func TestARefusedClusterIsReportedOnItsObjectAlone(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			world, other := shopAndOther(t, 20)
			world.store(shop())
			interceptor := world.start()
			proxy := world.proxy(interceptor, mode, firstProxy)
			world.waitForReport(shop(), "1/1 effective")
			world.waitForReport(other, "1/1 effective")
			proxy.Refuse(func(_, name string) error {
				if name == canary {
					return errors.New("poison")
				}
				return nil
			})
			world.store(shopAt(20))
			says := world.waitForCondition("shop", httpv1alpha1.ConditionReady, "False", httpv1alpha1.ReasonRefusedByProxy)
			if !strings.Contains(says, firstProxy) || !strings.Contains(says, "poison") {
				t.Errorf("the condition says %q", says)
			}
			world.waitForReport(shopAt(20), "1/0")
			world.waitForCondition("other", httpv1alpha1.ConditionReady, "True", httpv1alpha1.ReasonServing)

			proxy.Refuse(nil)
			proxy.Reconnect(world.dial(interceptor, firstProxy))
			world.waitForReport(shopAt(20), "1/1 effective")
			world.waitForCondition("shop", httpv1alpha1.ConditionReady, "True", httpv1alpha1.ReasonServing)
		})
	}
}

// TestReplicasReportTogether also shows that a replica which is not elected serves proxies all the same.
func TestReplicasReportTogether(t *testing.T) {
	world, _ := shopAndOther(t, 20)
	elected, standby := world.startReplica("interceptor-0", always), world.startReplica("interceptor-1", never)
	world.proxy(elected, kit.XDSDelta, firstProxy)
	moving := world.proxy(standby, kit.XDSDelta, secondProxy)
	world.waitForReport(shopAt(20), "2/2 effective")
	world.store(shopAt(50))
	world.waitForReport(shopAt(50), "2/2 effective")

	standby.stop()
	world.waitForReport(shopAt(50), "2/1")
	moving.Reconnect(world.dial(elected, secondProxy))
	world.waitForReport(shopAt(50), "2/2 effective")
}

// TestStableHashesFollowTheProxies plays a promotion: the stable Service gets the canary's Pods.
func TestStableHashesFollowTheProxies(t *testing.T) {
	world, _ := shopAndOther(t, 100)
	pods := func(selected, address, pod string) {
		service, slice := kit.NewService("apps", "shop-stable"), kit.NewEndpointSlice("apps", "shop-stable", address)
		service.Spec.Selector = map[string]string{"app": "shop", "rollouts-pod-template-hash": selected}
		slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		world.store(service, slice)
	}
	hashes := func(want ...string) {
		t.Helper()
		world.waitForStatus("shop", fmt.Sprint(want), func(is httpv1alpha1.HTTPScaledObjectStatus) string {
			if is.DataPlane == nil {
				return "no report"
			}
			return fmt.Sprint(slices.Clone(is.DataPlane.StableHashes))
		})
	}
	pods("6c54544bf9", "10.0.0.1", "shop-6c54544bf9-x7k2z")
	proxy := world.proxy(world.start(), kit.XDSDelta, firstProxy)
	hashes("6c54544bf9")
	world.waitForReport(shopAt(100), "1/1 effective")

	proxy.Stall()
	pods("789746c88d", "10.0.0.1", "shop-6c54544bf9-x7k2z") // The selector is ahead of the endpoints.
	pods("789746c88d", "10.0.0.8", "shop-789746c88d-bbbbb") // The stalled proxy takes this one yet,
	hashes("789746c88d")
	pods("789746c88d", "10.0.0.7", "shop-55f9cdb5d4-zzzzz") // but not this one.
	hashes("55f9cdb5d4", "789746c88d")
	proxy.Resume()
	hashes("55f9cdb5d4")
}

// TestNeighboursInAScope has two objects share a host, and two have wildcards, which share a scope too. A change of one
// makes another version of the scope for both: a proxy that comes with it has both.
func TestNeighboursInAScope(t *testing.T) {
	world, other := shopAndOther(t, 20)
	other.Spec.Hosts, other.Spec.PathPrefixes = shop().Spec.Hosts, []string{"/other"}
	wide := kit.NewScaledObject("apps", "wide", "other", 3, "*.test")
	narrow := kit.NewScaledObject("apps", "narrow", "other", 4, "*.eu.test")
	wide.UID, narrow.UID = "u3", "u4"
	world.store(other, wide, narrow)
	interceptor := world.start()
	proxy := world.proxy(interceptor, kit.XDSDelta, firstProxy)
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(20), other, wide, narrow} {
		world.waitForReport(object, "1/1 effective")
	}
	wider := wide.DeepCopy()
	wider.Spec.Hosts = []string{"*.test", "*.example"}
	world.store(shopAt(50), wider)
	proxy.WaitFor(func(state kit.XDSState) bool { return shares(state, "*.example") != nil })
	world.waitForReport(shopAt(50), "1/1 effective")
	proxy.Disconnect()
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other, wider, narrow} {
		world.waitForReport(object, "1/0")
	}
	proxy.Reconnect(world.dial(interceptor, firstProxy))
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other, wider, narrow} {
		world.waitForReport(object, "1/1 effective")
	}
}

// TestReplicasWithOtherFlagsCountEachOthersACKs: what a proxy is sent for an object depends on its
// replica's flags, whether it has what the object asks for does not (F8).
func TestReplicasWithOtherFlagsCountEachOthersACKs(t *testing.T) {
	world, other := shopAndOther(t, 20)
	elected := world.startReplica("interceptor-0", always)
	world.flags.AccessLog = !world.flags.AccessLog
	world.flags.MaxConnections++
	standby := world.startReplica("interceptor-1", never)
	world.proxy(elected, kit.XDSDelta, firstProxy)
	world.proxy(standby, kit.XDSDelta, secondProxy)
	for _, weight := range []uint32{20, 50} {
		world.store(shopAt(weight))
		world.waitForReport(shopAt(weight), "2/2 effective")
		world.waitForReport(other, "2/2 effective")
	}
}

// TestAReplicaTakesOver has the one that is elected end, and its proxy go to the other one, which knows
// what its own proxy has without asking it again.
func TestAReplicaTakesOver(t *testing.T) {
	world, other := shopAndOther(t, 20)
	elected, next := world.startReplica("interceptor-0", always), make(successor)
	standby := world.startReplica("interceptor-1", next.elect)
	moving := world.proxy(elected, kit.XDSDelta, firstProxy)
	world.proxy(standby, kit.XDSDelta, secondProxy)
	world.waitForReport(shopAt(20), "2/2 effective")
	elected.stop()
	close(next)
	world.waitForReport(shopAt(20), "2/1")
	moving.Reconnect(world.dial(standby, firstProxy))
	world.store(shopAt(50))
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other} {
		world.waitForReport(object, "2/2 effective")
	}
	world.waitForStatus("shop", "interceptor-1", func(is httpv1alpha1.HTTPScaledObjectStatus) string {
		return is.DataPlane.ReportedBy
	})
}
