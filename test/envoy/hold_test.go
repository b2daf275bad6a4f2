package envoy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestQueuedByHost sends the requests of hostCases while one app after the other is at zero. Only the requests of that
// app are queued, for any spelling of the host, and the app answers them once it has an endpoint. Envoy makes no call
// for other requests.
func TestQueuedByHost(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			all := hostInputs(t)
			r := startWithReplica(t, form, all)
			requests := 0
			for _, zero := range []string{"shop", "wide", "narrow", "app", "headers"} {
				r.await(t, r.publishInputs(t, without(all, zero)))
				var waiting []<-chan result
				for _, protocol := range protocols() {
					for _, c := range hostCases() {
						path := c.path
						if path == "" {
							path = "/"
						}
						if c.want == zero {
							waiting = append(waiting, r.startWith(t, protocol, c.host, path, c.header))
							continue
						}
						got := r.send(t.Context(), protocol, c.host, path, c.header, nil)
						if got.backend() != c.want || got.isCold() || c.want == "" && got.status != http.StatusNotFound {
							t.Errorf("%s is at zero, %s %s%s: answered by %q: %+v", zero, protocol, c.host, path, got.backend(), got)
						}
					}
				}
				r.awaitQueued(t, zero, len(waiting))
				r.publishInputs(t, all)
				for _, request := range waiting {
					if got := <-request; got.backend() != zero || !got.isCold() {
						t.Errorf("%s was at zero: answered by %q: %+v", zero, got.backend(), got)
					}
				}
				requests += len(waiting)
			}
			if got := r.calls(t); len(got) != 1 || got["served"] != requests {
				t.Errorf("calls: %v, want %d served and no other", got, requests)
			}
		})
	}
}

// TestQueuedBackendOfCanary: requests to the backend without an endpoint are queued, and later sent to this backend.
func TestQueuedBackendOfCanary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		weights [2]string
		zero    string
		isMixed bool
	}{
		"stable":                            {[2]string{"50", "50"}, "shop-stable", true},
		"a canary with weight 100":          {[2]string{"0", "100"}, "shop-canary", false},
		"stable, with a canary at weight 0": {[2]string{"100", "0"}, "shop-stable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const requests = 60
			all := canaryInputs(t, c.weights[0], c.weights[1])
			r := startWithReplica(t, "DELTA_GRPC", without(all, c.zero))
			var waiting []<-chan result
			for range requests {
				waiting = append(waiting, r.start(t, "HTTP/1.1", "shop.example.com"))
			}
			early := 0
			await.True(t, "each request is queued or answered", func() bool {
				early = 0
				for _, request := range waiting {
					early += len(request)
				}
				return early+r.queued("shop").Waiting == requests
			})
			if (early > 0) != c.isMixed || early == requests {
				t.Errorf("%d of %d were answered at once", early, requests)
			}
			r.publishInputs(t, all)
			byZero := 0
			for _, request := range waiting {
				got := <-request
				if got.backend() == c.zero {
					byZero++
				}
				if got.backend() == "" || got.isCold() != (got.backend() == c.zero) {
					t.Errorf("%+v", got)
				}
			}
			if byZero != requests-early {
				t.Errorf("%d were queued, and %d answered by %s", requests-early, byZero, c.zero)
			}
		})
	}
}

// lag publishes the endpoints of inputs in which services have none, with the routes of inputs in which they have.
func (r *replica) lag(t *testing.T, inputs resolve.Inputs, services ...string) {
	t.Helper()
	lagging := r.translated(t, without(inputs, services...))
	lagging[resourcev3.ScopedRouteType] = r.translated(t, inputs)[resourcev3.ScopedRouteType]
	r.publish(t, lagging)
	await.True(t, "the endpoints are acknowledged", func() bool { return r.hasEndpoints(lagging) })
}

// TestFallback sends requests through outdated routes to apps without endpoints, as a lagging worker of Envoy does.
// They are queued via the fallback listener, for both backends of a canary.
func TestFallback(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			const requests = 20
			all := canaryInputs(t, "50", "50")
			r := startWithReplica(t, "DELTA_GRPC", all)
			r.lag(t, all, "shop-stable")
			var waiting []<-chan result
			for range requests {
				waiting = append(waiting, r.start(t, protocol, "Shop.example.com:81"))
			}
			early := 0
			await.True(t, "each request is queued or answered", func() bool {
				early = 0
				for _, request := range waiting {
					early += len(request)
				}
				return early+r.queued("shop").Waiting == requests
			})
			if got := r.queued("shop"); got.ViaFallback != got.Waiting || got.Waiting == 0 {
				t.Errorf("queue: %+v", got)
			}
			r.publishInputs(t, all)
			for _, request := range waiting {
				if got := <-request; got.backend() == "" {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// TestQueueDeadlineCancelAndLimits: a queued request reaches its deadline, is canceled, or exceeds the limit.
func TestQueueDeadlineCancelAndLimits(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	soon := all.ScaledObjects[2]
	soon.Spec.Timeouts = queueDeadline(time.Second)
	r := startReplica(t, holding.Limits{Object: 3, Namespace: 100, Proxy: 100, Total: 100})
	r.proxy = &proxy{}
	r.publishInputs(t, without(all, "shop", "wide"))
	r.run(t, "DELTA_GRPC", r.grpcAddress)
	for _, protocol := range protocols() {
		got := r.send(t.Context(), protocol, "shop.example.com", "/", nil, nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
			got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonDeadline {
			t.Errorf("%s, at the deadline: %+v", protocol, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan result, 3)
		for range 3 {
			go func() { done <- r.send(ctx, protocol, "a.example.com", "/", nil, nil) }()
		}
		r.awaitQueued(t, "wide", 3)
		got = r.send(t.Context(), protocol, "a.example.com", "/", nil, nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
			got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonLimit {
			t.Errorf("%s, one too many: %+v", protocol, got)
		}
		got = r.send(t.Context(), protocol, "a.example.com", "/", http.Header{"User-Agent": {"kube-probe/1.34"}}, nil)
		if got.status != http.StatusOK || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonProbe {
			t.Errorf("%s, a probe: %+v", protocol, got)
		}
		cancel()
		r.awaitQueued(t, "wide", 0)
		for range 3 {
			if got := <-done; got.err == nil {
				t.Errorf("%s: a request that was canceled is answered with %+v", protocol, got)
			}
		}
	}
}

// TestTwoReplicasAndTwoProxies: a request is released when its own proxy has acknowledged an endpoint, independent of
// other proxies.
func TestTwoReplicasAndTwoProxies(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	a, b := startWithReplica(t, "DELTA_GRPC", without(all, "shop")), startWithReplica(t, "GRPC", without(all, "shop"))
	first, second := a.start(t, "HTTP/1.1", "shop.example.com"), b.start(t, "HTTP/2", "shop.example.com")
	a.awaitQueued(t, "shop", 1)
	b.awaitQueued(t, "shop", 1)
	b.publishInputs(t, all)
	if got := <-second; got.backend() != "shop" || !got.isCold() {
		t.Errorf("%+v", got)
	}
	if len(first) > 0 || a.queued("shop").Waiting != 1 {
		t.Error("the request of a proxy without an endpoint was released")
	}
	a.publishInputs(t, all)
	if got := <-first; got.backend() != "shop" || !got.isCold() {
		t.Errorf("%+v", got)
	}
}

// TestQueuedRequestsFollowTheirProxy: the queued requests of a proxy move to another replica, whether the first replica
// was killed or only disconnected from the proxy.
func TestQueuedRequestsFollowTheirProxy(t *testing.T) {
	t.Parallel()
	for name, disconnect := range map[string]func(*replica){
		"killed": func(r *replica) { r.grpcServer.Stop() }, "cut off": func(*replica) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const requests = 100
			limits := holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000}
			a, b := startReplica(t, limits), startReplica(t, limits)
			a.proxy, b.proxy = &proxy{}, &proxy{}
			b.options.Hold.Socket = a.options.Hold.Socket
			all := hostInputs(t)
			a.publishInputs(t, without(all, "shop"))
			b.publishInputs(t, without(all, "shop"))
			forward := startForwarder(t, a.grpcAddress)
			a.run(t, "DELTA_GRPC", forward.address)
			var waiting []<-chan result
			for range requests {
				waiting = append(waiting, a.start(t, "HTTP/1.1", "shop.example.com"))
			}
			a.awaitQueued(t, "shop", requests)
			disconnect(a)
			forward.setTarget(b.grpcAddress)
			b.awaitQueued(t, "shop", requests)
			a.awaitQueued(t, "shop", 0)
			b.publishInputs(t, all)
			for _, request := range waiting {
				if got := <-request; got.backend() != "shop" || !got.isCold() {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}
