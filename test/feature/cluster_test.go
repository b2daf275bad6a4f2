package feature

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// fakeCluster is a fake API server: tests store objects that watches receive, and read the statuses and Events that the
// interceptor writes.
type fakeCluster struct {
	t                               *testing.T
	scaledObjects, services, slices *cachetesting.FakeControllerSource
	replicas                        *cachetesting.FakeControllerSource
	options                         resolve.Options   // of replicas that start
	flags                           translate.Options // of replicas that start
	membershipTimeout               time.Duration     // of replicas that start
	clock                           *clock            // of their metric sinks
	reporters                       []*reporter

	mu       sync.Mutex
	proxies  map[string]map[string]bool                     // of each namespace, by address, and whether they are Ready
	statuses map[string]httpv1alpha1.HTTPScaledObjectStatus // by name of the HTTPScaledObject
	events   []string
}

// newCluster returns a cluster without objects. It ends with the test.
func newCluster(t *testing.T) *fakeCluster {
	t.Helper()
	c := &fakeCluster{
		t:                 t,
		scaledObjects:     cachetesting.NewFakeControllerSource(),
		services:          cachetesting.NewFakeControllerSource(),
		slices:            cachetesting.NewFakeControllerSource(),
		replicas:          cachetesting.NewFakeControllerSource(),
		options:           resolve.Options{SharedFleet: sharedFleet},
		flags:             translate.DefaultOptions(),
		membershipTimeout: await.Patience(),
		clock:             newClock(),
		proxies:           map[string]map[string]bool{},
		statuses:          map[string]httpv1alpha1.HTTPScaledObjectStatus{},
	}
	t.Cleanup(func() {
		for _, source := range []*cachetesting.FakeControllerSource{c.scaledObjects, c.services, c.slices, c.replicas} {
			source.Shutdown()
		}
	})
	c.addProxy("apps", localProxy, false) // It is not Ready, so that reports do not count it.
	return c
}

// store creates or changes objects. It keeps none of them.
func (c *fakeCluster) store(objects ...runtime.Object) {
	c.t.Helper()
	for _, object := range objects {
		object = object.DeepCopyObject()
		switch kind := object.GetObjectKind().GroupVersionKind().Kind; kind {
		case httpv1alpha1.Kind:
			c.scaledObjects.Modify(object)
		case "Service":
			c.services.Modify(object)
		case "EndpointSlice":
			c.slices.Modify(object)
		default:
			c.t.Fatalf("the cluster has no kind %q", kind)
		}
	}
}

// storeService stores a Service with endpoints.
func (c *fakeCluster) storeService(name string, addresses ...string) {
	c.t.Helper()
	c.store(kit.NewService("apps", name), kit.NewEndpointSlice("apps", name, addresses...))
}

// ApplyStatus implements status.Client. It does not change the stored object: package status tests how the interceptor
// reads its own writes.
func (c *fakeCluster) ApplyStatus(
	_ context.Context, object *httpv1alpha1.HTTPScaledObject, updated httpv1alpha1.HTTPScaledObjectStatus,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[object.Name] = updated
	return nil
}

// CreateEvent implements status.Client.
func (c *fakeCluster) CreateEvent(_ context.Context, event *eventsv1.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event.Regarding.Name+" "+event.Type+" "+event.Reason)
	return nil
}

// waitFor waits until a condition on what was written holds. describe describes the last state if it never does.
func (c *fakeCluster) waitFor(holds func() bool, describe func() string) {
	c.t.Helper()
	await.Described(c.t, "the written objects", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return holds()
	}, func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return describe()
	})
}

// waitForCondition waits until a condition of an HTTPScaledObject has this status and reason, and returns its message.
func (c *fakeCluster) waitForCondition(name, kind string, want metav1.ConditionStatus, reason string) (message string) {
	c.t.Helper()
	find := func() *metav1.Condition { return meta.FindStatusCondition(c.statuses[name].Conditions, kind) }
	c.waitFor(
		func() bool {
			condition := find()
			if condition == nil || condition.Status != want || condition.Reason != reason {
				return false
			}
			message = condition.Message
			return true
		},
		func() string {
			return fmt.Sprintf("condition %s of %s is %+v, want %s with reason %s", kind, name, find(), want, reason)
		},
	)
	return message
}

// waitForEvents waits until exactly these Events were written, oldest first.
func (c *fakeCluster) waitForEvents(want ...string) {
	c.t.Helper()
	c.waitFor(
		func() bool { return slices.Equal(c.events, want) },
		func() string { return fmt.Sprintf("events %q, want %q", c.events, want) },
	)
}

// storeReplica stores the EndpointSlice of a replica.
func (c *fakeCluster) storeReplica(name, address string) {
	c.t.Helper()
	addrPort := netip.MustParseAddrPort(address)
	slice := kit.NewEndpointSlice("keda", "interceptors-"+name, addrPort.Addr().String())
	port, portName := int32(addrPort.Port()), peers.PortName
	slice.Ports[0].Port, slice.Ports[0].Name = &port, &portName
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: name}
	c.replicas.Modify(slice)
}

// addProxy adds a proxy to the endpoints of its namespace.
func (c *fakeCluster) addProxy(namespace, address string, isReady bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proxies[namespace] == nil {
		c.proxies[namespace] = map[string]bool{}
	}
	c.proxies[namespace][address] = isReady
	c.storeProxies(namespace)
}

// removeProxy removes a proxy from the endpoints of its namespace.
func (c *fakeCluster) removeProxy(namespace, address string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.proxies[namespace], address)
	c.storeProxies(namespace)
}

// terminateProxy terminates the Pod of a proxy: its endpoint is serving, and not ready.
func (c *fakeCluster) terminateProxy(namespace, address string) {
	c.t.Helper()
	slice := kit.NewEndpointSlice(namespace, resolve.ProxyService, address)
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{
		Ready: new(false), Serving: new(true), Terminating: new(true),
	}
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "kedify-proxy-" + address}
	c.slices.Modify(slice)
}

// storeProxies stores the EndpointSlice of a namespace's proxies. The caller holds the lock.
func (c *fakeCluster) storeProxies(namespace string) {
	slice := kit.NewEndpointSlice(namespace, resolve.ProxyService)
	for address, isReady := range c.proxies[namespace] {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "kedify-proxy-" + address},
		})
	}
	c.slices.Modify(slice)
}
