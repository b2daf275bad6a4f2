package envoy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestHeldByHost is the table of hosts with one app after the other at zero: its requests, and nobody else's,
// wait, in whatever spelling, and are answered by it when it has an endpoint. Nobody asks about
// other requests.
func TestHeldByHost(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			all := hostsWorld(t)
			r := startHolding(t, form, all)
			asked := 0
			for _, zero := range []string{"shop", "wide", "narrow", "app", "headers"} {
				r.await(t, r.show(t, without(all, zero)))
				var waiting []<-chan answered
				for _, protocol := range spoken() {
					for _, c := range hostCases() {
						path := c.path
						if path == "" {
							path = "/"
						}
						if c.want == zero {
							waiting = append(waiting, r.beginWith(t, protocol, c.host, path, c.header))
							continue
						}
						got := r.ask(t.Context(), protocol, c.host, path, c.header, nil)
						if got.by() != c.want || got.isCold() || c.want == "" && got.status != http.StatusNotFound {
							t.Errorf("%s is at zero, %s %s%s: answered by %q: %+v", zero, protocol, c.host, path, got.by(), got)
						}
					}
				}
				r.awaitHeld(t, zero, len(waiting))
				r.show(t, all)
				for _, each := range waiting {
					if got := <-each; got.by() != zero || !got.isCold() {
						t.Errorf("%s was at zero: answered by %q: %+v", zero, got.by(), got)
					}
				}
				asked += len(waiting)
			}
			if got := r.calls(t); len(got) != 1 || got["served"] != asked {
				t.Errorf("calls: %v, want %d served and no other", got, asked)
			}
		})
	}
}

// TestHeldSideOfACanary: the requests of the side that has no endpoint wait, and go to that side then.
func TestHeldSideOfACanary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		weights [2]string
		zero    string
		isMixed bool
	}{
		"stable":                     {[2]string{"50", "50"}, "shop-stable", true},
		"a canary that has it all":   {[2]string{"0", "100"}, "shop-canary", false},
		"stable, and the canary got": {[2]string{"100", "0"}, "shop-stable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const requests = 60
			all := canaryWorld(t, c.weights[0], c.weights[1])
			r := startHolding(t, "DELTA_GRPC", without(all, c.zero))
			var waiting []<-chan answered
			for range requests {
				waiting = append(waiting, r.begin(t, "HTTP/1.1", "shop.example.com"))
			}
			early := 0
			await.True(t, "each request is held or answered", func() bool {
				early = 0
				for _, each := range waiting {
					early += len(each)
				}
				return early+r.held("shop").Waiting == requests
			})
			if (early > 0) != c.isMixed || early == requests {
				t.Errorf("%d of %d were answered at once", early, requests)
			}
			r.show(t, all)
			byZero := 0
			for _, each := range waiting {
				got := <-each
				if got.by() == c.zero {
					byZero++
				}
				if got.by() == "" || got.isCold() != (got.by() == c.zero) {
					t.Errorf("%+v", got)
				}
			}
			if byZero != requests-early {
				t.Errorf("%d were held, and %d answered by %s", requests-early, byZero, c.zero)
			}
		})
	}
}

// TestTheNet sends requests by routes that are not armed to apps without endpoints: as a worker of Envoy does
// that lags behind. They are held all the same, and on both sides of a canary.
func TestTheNet(t *testing.T) {
	t.Parallel()
	for _, protocol := range spoken() {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			const requests = 20
			all := canaryWorld(t, "50", "50")
			r := startHolding(t, "DELTA_GRPC", all)
			late := translated(t, without(all, "shop-stable"), r.options)
			late[resourcev3.ScopedRouteType] = translated(t, all, r.options)[resourcev3.ScopedRouteType]
			r.publish(t, late)
			await.True(t, "the endpoints are confirmed", func() bool { return r.hasEndpoints(late) })
			var waiting []<-chan answered
			for range requests {
				waiting = append(waiting, r.begin(t, protocol, "Shop.example.com:81"))
			}
			early := 0
			await.True(t, "each request is held or answered", func() bool {
				early = 0
				for _, each := range waiting {
					early += len(each)
				}
				return early+r.held("shop").Waiting == requests
			})
			if got := r.held("shop"); got.ViaFallback != got.Waiting || got.Waiting == 0 {
				t.Errorf("%+v is held", got)
			}
			r.show(t, all)
			for _, each := range waiting {
				if got := <-each; got.by() == "" {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// TestDeadlineCancelAndLimits are the other ends of a held request.
func TestDeadlineCancelAndLimits(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	soon := all.ScaledObjects[2]
	soon.Spec.Timeouts = coldStart(time.Second)
	r := startReplica(t, holding.Limits{Object: 3, Namespace: 100, Proxy: 100, Total: 100})
	r.proxy = &proxy{}
	r.show(t, without(all, "shop", "wide"))
	r.run(t, "DELTA_GRPC", r.at)
	for _, protocol := range spoken() {
		got := r.ask(t.Context(), protocol, "shop.example.com", "/", nil, nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
			got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonDeadline {
			t.Errorf("%s, at the deadline: %+v", protocol, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answered, 3)
		for range 3 {
			go func() { done <- r.ask(ctx, protocol, "a.example.com", "/", nil, nil) }()
		}
		r.awaitHeld(t, "wide", 3)
		got = r.ask(t.Context(), protocol, "a.example.com", "/", nil, nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonLimit {
			t.Errorf("%s, one too many: %+v", protocol, got)
		}
		got = r.ask(t.Context(), protocol, "a.example.com", "/", http.Header{"User-Agent": {"kube-probe/1.34"}}, nil)
		if got.status != http.StatusOK || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonProbe {
			t.Errorf("%s, a probe: %+v", protocol, got)
		}
		cancel()
		r.awaitHeld(t, "wide", 0)
		for range 3 {
			if got := <-done; got.err == nil {
				t.Errorf("%s: a request that was canceled is answered with %+v", protocol, got)
			}
		}
	}
}

// TestTwoReplicasAndTwoProxies: a request goes on when its own proxy has confirmed an endpoint, whatever
// another one has.
func TestTwoReplicasAndTwoProxies(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	a, b := startHolding(t, "DELTA_GRPC", without(all, "shop")), startHolding(t, "GRPC", without(all, "shop"))
	first, second := a.begin(t, "HTTP/1.1", "shop.example.com"), b.begin(t, "HTTP/2", "shop.example.com")
	a.awaitHeld(t, "shop", 1)
	b.awaitHeld(t, "shop", 1)
	b.show(t, all)
	if got := <-second; got.by() != "shop" || !got.isCold() {
		t.Errorf("%+v", got)
	}
	if len(first) > 0 || a.held("shop").Waiting != 1 {
		t.Error("the request of a proxy that has no endpoint goes on")
	}
	a.show(t, all)
	if got := <-first; got.by() != "shop" || !got.isCold() {
		t.Errorf("%+v", got)
	}
}

// TestHeldRequestsFollowTheirProxy to another replica, whether its own one was killed or only cut off from it.
func TestHeldRequestsFollowTheirProxy(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*replica){
		"killed": func(r *replica) { r.over.Stop() }, "cut off": func(*replica) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const requests = 100
			limits := holding.Limits{Object: 1000, Namespace: 1000, Proxy: 1000, Total: 1000}
			a, b := startReplica(t, limits), startReplica(t, limits)
			a.proxy, b.proxy = &proxy{}, &proxy{}
			b.options.Hold.Socket = a.options.Hold.Socket
			all := hostsWorld(t)
			a.show(t, without(all, "shop"))
			b.show(t, without(all, "shop"))
			road := openRoad(t, a.at)
			a.run(t, "DELTA_GRPC", road.at)
			var waiting []<-chan answered
			for range requests {
				waiting = append(waiting, a.begin(t, "HTTP/1.1", "shop.example.com"))
			}
			a.awaitHeld(t, "shop", requests)
			leave(a)
			road.leadTo(b.at)
			b.awaitHeld(t, "shop", requests)
			a.awaitHeld(t, "shop", 0)
			b.show(t, all)
			for _, each := range waiting {
				if got := <-each; got.by() != "shop" || !got.isCold() {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}
