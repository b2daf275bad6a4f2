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

// reported summarizes a report of an HTTPScaledObject: ready/acked, whether it is effective, and whether it is about
// the current annotation.
func reported(s httpv1alpha1.HTTPScaledObjectStatus, object *httpv1alpha1.HTTPScaledObject) string {
	report := s.DataPlane
	if report == nil {
		return "no report"
	}
	text := fmt.Sprintf("%d/%d", report.Proxies.Ready, report.Proxies.Acked)
	if report.Effective {
		text += " effective"
	}
	hash := split.Hash(object.Annotations[httpv1alpha1.AnnotationWeightedBackends], "",
		object.Annotations[httpv1alpha1.AnnotationStickiness])
	if report.AnnotationHash != hash {
		text += " of another annotation"
	}
	return text
}

// waitForStatus waits until summarize returns the wanted text for the status of an HTTPScaledObject.
func (c *fakeCluster) waitForStatus(name, want string, summarize func(httpv1alpha1.HTTPScaledObjectStatus) string) {
	c.t.Helper()
	c.waitFor(
		func() bool { return summarize(c.statuses[name]) == want },
		func() string { return fmt.Sprintf("%s has %q, want %q", name, summarize(c.statuses[name]), want) },
	)
}

// waitForReport waits until the report of object is as wanted.
func (c *fakeCluster) waitForReport(object *httpv1alpha1.HTTPScaledObject, want string) {
	c.t.Helper()
	c.waitForStatus(
		object.Name, want, func(s httpv1alpha1.HTTPScaledObjectStatus) string { return reported(s, object) },
	)
}

// shopAndOther returns a cluster with shop at a weight, and another object.
func shopAndOther(t *testing.T, weight uint32) (*fakeCluster, *httpv1alpha1.HTTPScaledObject) {
	t.Helper()
	cluster := newCluster(t)
	cluster.storeService("shop-stable", "10.0.0.1")
	cluster.storeService("shop-canary", "10.0.0.9")
	cluster.storeService("other", "10.0.1.1")
	other := kit.NewScaledObject("apps", "other", "other", 2, "other.test")
	other.UID = "u2"
	cluster.store(shopAt(weight), other)
	return cluster, other
}

func TestReportOfStalledProxy(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster, other := shopAndOther(t, 20)
			interceptor := cluster.start()
			cluster.proxy(interceptor, mode, firstProxy)
			stalling := cluster.proxy(interceptor, mode, secondProxy)
			cluster.waitForReport(shopAt(20), "2/2 effective")
			cluster.waitForReport(other, "2/2 effective")

			stalling.Stall()
			cluster.store(shopAt(30)) // The client has already requested this one, and stalls after it.
			cluster.waitForReport(shopAt(30), "2/2 effective")
			cluster.store(shopAt(50))
			cluster.waitForReport(shopAt(50), "2/1")
			cluster.mu.Lock()
			if got := reported(cluster.statuses["other"], other); got != "2/2 effective" {
				t.Errorf("the other object, which the stalled proxy has, is reported as %q", got)
			}
			cluster.mu.Unlock()
			stalling.Resume()
			cluster.waitForReport(shopAt(50), "2/2 effective")
		})
	}
}

// TestReportOfStickiness: the same weights with another stickiness are acknowledged when every proxy has it. An invalid
// one is acknowledged by no proxy.
func TestReportOfStickiness(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	interceptor := cluster.start()
	cluster.proxy(interceptor, kit.XDSDelta, firstProxy)
	stalling := cluster.proxy(interceptor, kit.XDSDelta, secondProxy)
	by := func(text string) *httpv1alpha1.HTTPScaledObject {
		return kit.WithAnnotation(shopAt(20), httpv1alpha1.AnnotationStickiness, text)
	}
	cluster.waitForReport(shopAt(20), "2/2 effective")
	stalling.Stall()
	cluster.store(by("header: x-user")) // The client has already requested this one, and stalls after it.
	cluster.waitForReport(by("header: x-user"), "2/2 effective")
	cluster.store(by("cookie: {}"))
	cluster.waitForReport(by("cookie: {}"), "2/1")
	stalling.Resume()
	cluster.waitForReport(by("cookie: {}"), "2/2 effective")
	cluster.store(by("cookie: yes"))
	cluster.waitForReport(by("cookie: yes"), "2/0")
	cluster.store(shopAt(20))
	cluster.waitForReport(shopAt(20), "2/2 effective")
}

func TestReportOfDisconnectedProxy(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	interceptor := cluster.start()
	proxy := cluster.proxy(interceptor, kit.XDSDelta, firstProxy)
	cluster.waitForReport(shopAt(20), "1/1 effective")
	proxy.Disconnect()
	cluster.waitForReport(shopAt(20), "1/0")
	proxy.Reconnect(cluster.dial(interceptor, firstProxy))
	cluster.waitForReport(shopAt(20), "1/1 effective")
}

func TestReportWithoutCanaryEndpoints(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.storeService("shop-canary")
	cluster.proxy(cluster.start(), kit.XDSDelta, firstProxy)
	cluster.waitForReport(shopAt(20), "1/1")
	cluster.storeService("shop-canary", "10.0.0.9")
	cluster.waitForReport(shopAt(20), "1/1 effective")
}

func TestReportOfInvalidAnnotation(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	cluster.proxy(cluster.start(), kit.XDSDelta, firstProxy)
	cluster.waitForReport(shopAt(20), "1/1 effective")
	wrong := kit.WithAnnotation(shop(), httpv1alpha1.AnnotationWeightedBackends, "80/20")
	cluster.store(wrong)
	cluster.waitForReport(wrong, "1/0")
}

func TestReportOfRejectedCluster(t *testing.T) {
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			cluster, other := shopAndOther(t, 20)
			cluster.store(shop())
			interceptor := cluster.start()
			proxy := cluster.proxy(interceptor, mode, firstProxy)
			cluster.waitForReport(shop(), "1/1 effective")
			cluster.waitForReport(other, "1/1 effective")
			proxy.Reject(func(_, name string) error {
				if name == canary {
					return errors.New("poison")
				}
				return nil
			})
			cluster.store(shopAt(20))
			message := cluster.waitForCondition(
				"shop", httpv1alpha1.ConditionReady, "False", httpv1alpha1.ReasonRejectedByProxy,
			)
			if !strings.Contains(message, firstProxy) || !strings.Contains(message, "poison") {
				t.Errorf("the message of the condition is %q", message)
			}
			cluster.waitForReport(shopAt(20), "1/0")
			cluster.waitForCondition("other", httpv1alpha1.ConditionReady, "True", httpv1alpha1.ReasonServing)

			proxy.Reject(nil)
			proxy.Reconnect(cluster.dial(interceptor, firstProxy))
			cluster.waitForReport(shopAt(20), "1/1 effective")
			cluster.waitForCondition("shop", httpv1alpha1.ConditionReady, "True", httpv1alpha1.ReasonServing)
		})
	}
}

// TestReplicasReportTogether requires one report for the proxies of both replicas. It also requires that a replica that
// is not elected serves proxies.
func TestReplicasReportTogether(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	elected, standby := cluster.startReplica("interceptor-0", always), cluster.startReplica("interceptor-1", never)
	cluster.proxy(elected, kit.XDSDelta, firstProxy)
	moving := cluster.proxy(standby, kit.XDSDelta, secondProxy)
	cluster.waitForReport(shopAt(20), "2/2 effective")
	cluster.store(shopAt(50))
	cluster.waitForReport(shopAt(50), "2/2 effective")

	standby.stop()
	cluster.waitForReport(shopAt(50), "2/1")
	moving.Reconnect(cluster.dial(elected, secondProxy))
	cluster.waitForReport(shopAt(50), "2/2 effective")
}

// TestStableHashesFollowProxies plays a promotion: the stable Service gets the canary's Pods.
func TestStableHashesFollowProxies(t *testing.T) {
	cluster, _ := shopAndOther(t, 100)
	pods := func(selected, address, pod string) {
		service, slice := kit.NewService("apps", "shop-stable"), kit.NewEndpointSlice("apps", "shop-stable", address)
		service.Spec.Selector = map[string]string{"app": "shop", "rollouts-pod-template-hash": selected}
		slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		cluster.store(service, slice)
	}
	hashes := func(want ...string) {
		t.Helper()
		cluster.waitForStatus("shop", fmt.Sprint(want), func(s httpv1alpha1.HTTPScaledObjectStatus) string {
			if s.DataPlane == nil {
				return "no report"
			}
			return fmt.Sprint(slices.Clone(s.DataPlane.StableHashes))
		})
	}
	pods("6c54544bf9", "10.0.0.1", "shop-6c54544bf9-x7k2z")
	proxy := cluster.proxy(cluster.start(), kit.XDSDelta, firstProxy)
	hashes("6c54544bf9")
	cluster.waitForReport(shopAt(100), "1/1 effective")

	proxy.Stall()
	pods("789746c88d", "10.0.0.1", "shop-6c54544bf9-x7k2z") // The selector changes before the endpoints.
	pods("789746c88d", "10.0.0.8", "shop-789746c88d-bbbbb") // The stalled proxy applies this one,
	hashes("789746c88d")
	pods("789746c88d", "10.0.0.7", "shop-55f9cdb5d4-zzzzz") // but not this one.
	hashes("55f9cdb5d4", "789746c88d")
	proxy.Resume()
	hashes("55f9cdb5d4")
}

// TestObjectsShareScope has two objects with the same host, and two with wildcards, which share a scope too. A change
// of one changes the version of the scope for both: a proxy that has this version has both.
func TestObjectsShareScope(t *testing.T) {
	cluster, other := shopAndOther(t, 20)
	other.Spec.Hosts, other.Spec.PathPrefixes = shop().Spec.Hosts, []string{"/other"}
	wide := kit.NewScaledObject("apps", "wide", "other", 3, "*.test")
	narrow := kit.NewScaledObject("apps", "narrow", "other", 4, "*.eu.test")
	wide.UID, narrow.UID = "u3", "u4"
	cluster.store(other, wide, narrow)
	interceptor := cluster.start()
	proxy := cluster.proxy(interceptor, kit.XDSDelta, firstProxy)
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(20), other, wide, narrow} {
		cluster.waitForReport(object, "1/1 effective")
	}
	wider := wide.DeepCopy()
	wider.Spec.Hosts = []string{"*.test", "*.example"}
	cluster.store(shopAt(50), wider)
	proxy.WaitFor(func(state kit.XDSState) bool { return weights(state, "*.example") != nil })
	cluster.waitForReport(shopAt(50), "1/1 effective")
	proxy.Disconnect()
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other, wider, narrow} {
		cluster.waitForReport(object, "1/0")
	}
	proxy.Reconnect(cluster.dial(interceptor, firstProxy))
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other, wider, narrow} {
		cluster.waitForReport(object, "1/1 effective")
	}
}

// TestReplicasWithDifferentFlagsCountACKs requires that replicas count each other's ACKs although their flags differ.
// Flags change what a proxy is sent for an object, but not whether it has the desired weight (F8).
func TestReplicasWithDifferentFlagsCountACKs(t *testing.T) {
	cluster, other := shopAndOther(t, 20)
	elected := cluster.startReplica("interceptor-0", always)
	cluster.flags.AccessLog = !cluster.flags.AccessLog
	cluster.flags.MaxConnections++
	standby := cluster.startReplica("interceptor-1", never)
	cluster.proxy(elected, kit.XDSDelta, firstProxy)
	cluster.proxy(standby, kit.XDSDelta, secondProxy)
	for _, weight := range []uint32{20, 50} {
		cluster.store(shopAt(weight))
		cluster.waitForReport(shopAt(weight), "2/2 effective")
		cluster.waitForReport(other, "2/2 effective")
	}
}

// TestReplicaTakesOver stops the elected replica. Its proxy connects to the other one, which reports its own proxies
// without new requests to them.
func TestReplicaTakesOver(t *testing.T) {
	cluster, other := shopAndOther(t, 20)
	elected, next := cluster.startReplica("interceptor-0", always), make(successor)
	standby := cluster.startReplica("interceptor-1", next.elect)
	moving := cluster.proxy(elected, kit.XDSDelta, firstProxy)
	cluster.proxy(standby, kit.XDSDelta, secondProxy)
	cluster.waitForReport(shopAt(20), "2/2 effective")
	elected.stop()
	close(next)
	cluster.waitForReport(shopAt(20), "2/1")
	moving.Reconnect(cluster.dial(standby, firstProxy))
	cluster.store(shopAt(50))
	for _, object := range []*httpv1alpha1.HTTPScaledObject{shopAt(50), other} {
		cluster.waitForReport(object, "2/2 effective")
	}
	cluster.waitForStatus("shop", "interceptor-1", func(s httpv1alpha1.HTTPScaledObjectStatus) string {
		return s.DataPlane.ReportedBy
	})
}
