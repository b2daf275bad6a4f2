package envoy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// noHealthyUpstream is the body of Envoy's response if a cluster has no usable endpoint.
const noHealthyUpstream = "no healthy upstream"

// isUnavailable reports whether Envoy answered because the cluster has no usable endpoint.
func (a result) isUnavailable() bool {
	return a.status == http.StatusServiceUnavailable && a.body == noHealthyUpstream &&
		a.header.Get(extauthz.ReasonHeader) == ""
}

// TestBeforeTheFirstEndpoint: the proxy has acknowledged an object whose Service has no ready endpoint yet. Requests are
// queued if the workload may scale to zero. If it may not, they are answered with 503 until there is an endpoint.
func TestBeforeTheFirstEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		minimum  *int32
		isQueued bool
	}{
		"no minimum": {nil, true}, "minimum 0": {new(int32(0)), true}, "minimum 1": {new(int32(1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := hostInputs(t)
			all.ScaledObjects[2].Spec.Replicas = &httpv1alpha1.ReplicaRange{Min: c.minimum}
			r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
			answer := r.start(t, "HTTP/1.1", "shop.example.com")
			if c.isQueued {
				r.awaitQueued(t, "shop", 1)
			} else if got := <-answer; !got.isUnavailable() || got.header.Get("Retry-After") == "" {
				t.Errorf("%+v, want %q with Retry-After", got, noHealthyUpstream)
			}
			r.publishInputs(t, all)
			await.True(t, "the app answers", func() bool {
				return r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", nil, nil).backend() == "shop"
			})
			if got := answer; c.isQueued && (<-got).backend() != "shop" {
				t.Error("the queued request was not answered by the app")
			}
		})
	}
}

// churn changes the endpoints of applications that may scale to zero, while they have requests.
type churn struct {
	*replica

	inputs  resolve.Inputs   // one EndpointSlice for each application
	ready   []netip.AddrPort // of the backends
	refused netip.Addr       // accepts no connection

	mu       sync.Mutex
	outcomes map[string]int
}

// TestEndpointsComeAndGoOnABusyMachine sends requests as soon as the proxy has the route of a new application, while
// its endpoints change and other processes occupy the machine. Many workers of Envoy apply each change at different
// times. A request is answered by an application, or it fails because the only endpoint refuses connections. The proxy
// is never without an endpoint for it.
func TestEndpointsComeAndGoOnABusyMachine(t *testing.T) {
	const rounds, apps, changes = 2, 20, 15
	c := startChurn(t)
	occupyProcessors(t, 8)
	for round := range rounds {
		c.addApps(t, fmt.Sprint("round-", round), apps)
		resources := c.publishInputs(t, c.randomEndpoints())
		stop, started := make(chan struct{}), map[string]bool{}
		var sending sync.WaitGroup
		await.True(t, "the proxy has every route", func() bool {
			c.server.Poll(func(state xds.StreamState) {
				for host := range resources[resourcev3.ScopedRouteType] {
					hasRoute := state.Resource(resourcev3.ScopedRouteType, host).Acked != ""
					if hasRoute && !started[host] && host != "*" {
						started[host] = true
						for range 4 {
							sending.Go(func() { c.sendUntil(t, host, stop) })
						}
					}
				}
			})
			return len(started) == apps
		})
		for range changes {
			resources = c.publishInputs(t, c.randomEndpoints())
			if rand.IntN(2) == 0 {
				await.True(t, "the endpoints are acknowledged", func() bool { return c.hasEndpoints(resources) })
			}
		}
		close(stop)
		c.publishInputs(t, c.readyEndpoints())
		sending.Wait()
	}
	t.Logf("requests: %v, calls: %v", c.outcomes, c.calls(t))
	if c.outcomes["answered"] == 0 {
		t.Error("no request was answered")
	}
}

// startChurn starts a replica, a proxy with many workers, and the backends.
func startChurn(t *testing.T) *churn {
	t.Helper()
	const queued = 100_000 // more than there are requests
	c := &churn{
		replica: startReplica(t, holding.Limits{Object: queued, Namespace: queued, Proxy: queued, Total: queued}),
		refused: refusing().Addr(), outcomes: map[string]int{},
	}
	c.proxy, c.workers = &proxy{}, 8
	for i := range 3 {
		address := startBackend(t, fmt.Sprint("backend-", i)).server.Listener.Addr().String()
		c.ready = append(c.ready, netip.MustParseAddrPort(address))
	}
	c.publishInputs(t, resolve.Inputs{})
	c.run(t, "DELTA_GRPC", c.grpcAddress)
	return c
}

// addApps replaces the applications by new ones, with the host <name>.test each.
func (c *churn) addApps(t *testing.T, prefix string, count int) {
	t.Helper()
	c.inputs = resolve.Inputs{}
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		c.inputs.ScaledObjects = append(c.inputs.ScaledObjects, kit.NewScaledObject(namespace, name, name, 1, name+".test"))
		service := resolve.NewService(kit.NewService(namespace, name))
		c.inputs.Services = append(c.inputs.Services, service)
		c.inputs.EndpointSlices = append(c.inputs.EndpointSlices, &resolve.EndpointSlice{
			Key: service.Key, Service: service.Key, Family: discoveryv1.AddressTypeIPv4,
			Ports: []resolve.SlicePort{{Name: service.Ports[0].Name}},
		})
	}
}

// readyEndpoints returns the inputs with a ready endpoint for each application.
func (c *churn) readyEndpoints() resolve.Inputs {
	return c.withEndpoints(func(at netip.AddrPort) []resolve.Endpoint {
		return []resolve.Endpoint{{Address: at.Addr(), IsReady: true}}
	})
}

// randomEndpoints returns the inputs with any endpoints: none, some that drain, and some that refuse connections.
func (c *churn) randomEndpoints() resolve.Inputs {
	return c.withEndpoints(func(at netip.AddrPort) []resolve.Endpoint {
		ready, refused := resolve.Endpoint{Address: at.Addr(), IsReady: true}, resolve.Endpoint{Address: c.refused, IsReady: true}
		draining := resolve.Endpoint{Address: at.Addr(), IsServing: true, IsTerminating: true}
		choices := [][]resolve.Endpoint{nil, {ready}, {refused}, {draining}, {ready, refused}, {refused, draining}}
		return choices[rand.IntN(len(choices))]
	})
}

// withEndpoints returns the inputs with the endpoints that choose returns for a random backend.
func (c *churn) withEndpoints(choose func(netip.AddrPort) []resolve.Endpoint) resolve.Inputs {
	inputs := c.inputs
	inputs.EndpointSlices = make([]*resolve.EndpointSlice, 0, len(c.inputs.EndpointSlices))
	for _, empty := range c.inputs.EndpointSlices {
		at, slice := c.ready[rand.IntN(len(c.ready))], *empty
		slice.Ports = []resolve.SlicePort{{Name: empty.Ports[0].Name, Number: at.Port()}}
		slice.Endpoints = choose(at)
		inputs.EndpointSlices = append(inputs.EndpointSlices, &slice)
	}
	return inputs
}

// sendUntil sends requests one after the other, at least one.
func (c *churn) sendUntil(t *testing.T, host string, stop <-chan struct{}) {
	t.Helper()
	for {
		got, outcome := c.send(t.Context(), "HTTP/1.1", host, "/", nil, nil), "answered"
		switch isFailed := got.status == http.StatusServiceUnavailable; {
		case got.backend() != "":
		case isFailed && strings.HasPrefix(got.body, "upstream connect error"):
			outcome = "connection refused"
		default:
			t.Errorf("%s: %+v", host, got)
		}
		c.mu.Lock()
		c.outcomes[outcome]++
		c.mu.Unlock()
		select {
		case <-stop:
			return
		default:
		}
	}
}

// occupyProcessors runs processes that use all processor time that they get. They end with the test.
func occupyProcessors(t *testing.T, count int) {
	t.Helper()
	for range count {
		busy := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the test is killed
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(busy.Process.Kill(), busy.Wait()) })
	}
}
