package envoy_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// outlierStat returns a statistic of the ejections of a cluster.
func (p *proxy) outlierStat(t *testing.T, cluster, name string) int {
	t.Helper()
	return p.stat(t, "cluster."+cluster+".outlier_detection."+name)
}

// getMany sends requests in parallel, and returns the number of responses by status.
func (p *proxy) getMany(t *testing.T, target string, count int) map[int]int {
	t.Helper()
	var sending sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range count {
		sending.Go(func() {
			got, err := p.get(t.Context(), target, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			statuses[got.status]++
		})
	}
	sending.Wait()
	return statuses
}

// withEndpoint adds an endpoint to a Service, and returns it.
func withEndpoint(inputs *resolve.Inputs, service string, address netip.AddrPort) *resolve.Endpoint {
	slice := *inputs.EndpointSlices[0]
	slice.Key.Name, slice.Service.Name = service+"-"+address.String(), service
	slice.Ports = []resolve.SlicePort{{Name: slice.Ports[0].Name, Number: address.Port()}}
	slice.Endpoints = []resolve.Endpoint{{Address: address.Addr(), IsReady: true}}
	inputs.EndpointSlices = append(inputs.EndpointSlices, &slice)
	return &slice.Endpoints[0]
}

// refusing returns an address at which connections are refused.
func refusing() netip.AddrPort { return netip.AddrPortFrom(loopback.Address(), 8080) }

// silent returns an address at which connections are neither accepted nor refused, as on a failed node: the queue of
// the listening socket is full.
func silent(t *testing.T) netip.AddrPort {
	t.Helper()
	address := loopback.Address()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	bound := netip.AddrPortFrom(address, 8080)
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: address.As4(), Port: int(bound.Port())}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	first, err := new(net.Dialer).DialContext(t.Context(), "tcp", bound.String()) // It fills the queue.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	return bound
}

// TestFailingPodIsEjected: one of three Pods refuses connections, or does not answer them, as after a failure of its
// node. No request fails, and soon that Pod receives none.
func TestFailingPodIsEjected(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]netip.AddrPort{"refuses": refusing(), "drops": silent(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := newInputs(t, []*backend{startBackend(t, "shop"), startBackend(t, "other")},
				kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
			inputs.EndpointSlices[1].Service.Name = "shop"
			withEndpoint(&inputs, "shop", failing)
			checkEjection(t, inputs)
		})
	}
}

// checkEjection starts a proxy for app shop, of which one Pod fails. No request fails, and soon that Pod is ejected and
// receives none.
func checkEjection(t *testing.T, inputs resolve.Inputs) {
	t.Helper()
	withSettings(t, &inputs, "{connect_timeout: 1s, "+
		"outlier_detection: {base_ejection_time: 1h, max_ejection_time: 1h}}") // so that it does not end meanwhile
	p := start(t, translated(t, inputs, translate.DefaultOptions()))
	const cluster, target = "apps/shop/shop", "http://shop.example.com/"
	await.True(t, "the ejection", func() bool {
		if got := p.getMany(t, target, 20); got[http.StatusOK] != 20 {
			t.Errorf("responses by status: %v", got)
		}
		return p.outlierStat(t, cluster, "ejections_active") == 1
	})
	failures := p.stat(t, "cluster."+cluster+".upstream_cx_connect_fail")
	retries := p.stat(t, "cluster."+cluster+".upstream_rq_retry")
	if got := p.getMany(t, target, 50); got[http.StatusOK] != 50 {
		t.Errorf("after the ejection, responses by status: %v", got)
	}
	if now := p.stat(t, "cluster."+cluster+".upstream_rq_retry"); now != retries || failures == 0 {
		t.Errorf("%d retries after the ejection, %d failed connections before", now-retries, failures)
	}
}

// withSettings adds Envoy settings for the clusters of the namespace.
func withSettings(t *testing.T, inputs *resolve.Inputs, cluster string) {
	t.Helper()
	parsed := envoysettings.Parse(map[string]string{envoysettings.KeyCluster: cluster})
	settings, conflicts := parsed.Settings()
	if len(parsed.Problems)+len(conflicts) > 0 {
		t.Fatal(parsed.Problems, conflicts)
	}
	inputs.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
}

// TestErrorsOfTheApplicationEjectNoPod: one of three Pods answers every request with 503, and closes the connection
// without an answer for some. Both are the application's own errors.
func TestErrorsOfTheApplicationEjectNoPod(t *testing.T) {
	t.Parallel()
	failing := &backend{name: "failing", server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))}
	t.Cleanup(failing.server.Close)
	inputs := newInputs(t, []*backend{startBackend(t, "shop"), startBackend(t, "other"), failing},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	inputs.EndpointSlices[1].Service.Name, inputs.EndpointSlices[2].Service.Name = "shop", "shop"
	p := start(t, translated(t, inputs, translate.DefaultOptions()))
	failed := 0
	for range 60 {
		for _, path := range []string{"", "abort"} {
			if p.mustGet(t, "http://shop.example.com/"+path, nil).status == http.StatusServiceUnavailable {
				failed++
			}
		}
	}
	if failed < 10 {
		t.Errorf("%d requests failed, so the test proves nothing", failed)
	}
	for _, stat := range []string{"ejections_active", "ejections_enforced_total", "ejections_overflow"} {
		if got := p.outlierStat(t, "apps/shop/shop", stat); got != 0 {
			t.Errorf("%s: %d", stat, got)
		}
	}
}

// TestOnlyPodIsNotEjected: the only Pod of the canary refuses connections. Its share of the requests fails, and none of
// them goes to the stable version.
func TestOnlyPodIsNotEjected(t *testing.T) {
	t.Parallel()
	inputs := newInputs(t, []*backend{startBackend(t, "stable"), startBackend(t, "canary")},
		kit.WithSplit(kit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com"),
			split.Backend{Service: "stable", Weight: 50}, split.Backend{Service: "canary", Weight: 50}))
	inputs.EndpointSlices = inputs.EndpointSlices[:1]
	withEndpoint(&inputs, "canary", refusing())
	p := start(t, translated(t, inputs, translate.DefaultOptions()))
	const stable, canary = "apps/shop/stable", "apps/shop/canary"
	statuses := map[int]int{}
	await.True(t, "failures that would eject the Pod", func() bool {
		for status, count := range p.getMany(t, "http://shop.example.com/", 20) {
			statuses[status] += count
		}
		return p.outlierStat(t, canary, "ejections_overflow") > 0
	})
	if active := p.outlierStat(t, canary, "ejections_active"); active != 0 {
		t.Errorf("%d Pods of the canary are ejected", active)
	}
	if served := p.stat(t, "cluster."+stable+".upstream_rq_total"); served != statuses[http.StatusOK] ||
		statuses[http.StatusServiceUnavailable] == 0 || len(statuses) != 2 {
		t.Errorf("the stable version received %d requests; responses by status: %v", served, statuses)
	}
}

// TestLastReadyPodReceivesRequests: a Pod that refuses connections is the only ready one, next to one that terminates
// and still answers. The Pod is ejected, and requests find the other one instead of no Pod.
func TestLastReadyPodReceivesRequests(t *testing.T) {
	t.Parallel()
	inputs := newInputs(t, []*backend{startBackend(t, "shop")},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	terminating := &inputs.EndpointSlices[0].Endpoints[0]
	terminating.IsReady, terminating.IsServing, terminating.HasServing, terminating.IsTerminating = false, true, true, true
	withEndpoint(&inputs, "shop", refusing())
	p := start(t, translated(t, inputs, translate.DefaultOptions()))
	const cluster = "apps/shop/shop"
	await.True(t, "the ejection", func() bool {
		p.getMany(t, "http://shop.example.com/", 10)
		return p.outlierStat(t, cluster, "ejections_active") == 1
	})
	if got := p.getMany(t, "http://shop.example.com/", 20); got[http.StatusOK] == 0 {
		t.Errorf("responses by status: %v", got)
	}
}
