package envoy_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// TestConnectFailureIsRetried: one of two Pods refuses connections, as after a crash of its node before the
// EndpointSlice changes. Each request is retried on the other Pod.
func TestConnectFailureIsRetried(t *testing.T) {
	t.Parallel()
	objects := newInputs(t, []*backend{startBackend(t, "shop")},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	slice := objects.EndpointSlices[0]
	refusing := slice.Endpoints[0]
	refusing.Address = loopback.Address() // No process listens there.
	slice.Endpoints = append(slice.Endpoints, refusing)
	s := start(t, translated(t, objects, translate.DefaultOptions()))
	for range 50 {
		if got := s.mustGet(t, "http://shop.example.com/", nil); got.status != http.StatusOK {
			t.Fatalf("got %d, want 200", got.status)
		}
	}
	if retries := s.stat(t, "cluster.apps/shop/shop.upstream_rq_retry"); retries == 0 {
		t.Error("the refusing Pod was never tried, so the test proves nothing")
	}
}

// TestManyPodsDisappear: most Pods refuse connections, or do not answer them, as if they disappeared together before the
// EndpointSlice changed. No request fails, although all fail at first at the same time.
func TestManyPodsDisappear(t *testing.T) {
	t.Parallel()
	gone := map[string][]netip.AddrPort{}
	for range 7 {
		gone["refuse"] = append(gone["refuse"], refusing())
	}
	for range 3 { // Each of them costs a connect timeout.
		gone["drop"] = append(gone["drop"], silent(t))
	}
	for name, addresses := range gone {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := newInputs(t, []*backend{startBackend(t, "shop")},
				kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
			for _, address := range addresses {
				withEndpoint(&inputs, "shop", address)
			}
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			const requests = 60
			if got := p.getMany(t, "http://shop.example.com/", requests); got[http.StatusOK] != requests {
				t.Errorf("responses by status: %v", got)
			}
			const cluster = "cluster.apps/shop/shop."
			if retries := p.stat(t, cluster+"upstream_rq_retry"); retries == 0 {
				t.Error("no request was retried, so the test proves nothing")
			}
			if rejected := p.stat(t, cluster+"upstream_rq_retry_overflow"); rejected != 0 {
				t.Errorf("%d retries were above a limit", rejected)
			}
		})
	}
}

// TestReceivedRequestIsNotRetried: an app closes the connection after it has read a request.
func TestReceivedRequestIsNotRetried(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	closing := &backend{name: "shop", server: httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request,
	) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	}))}
	t.Cleanup(closing.server.Close)
	objects := newInputs(t, []*backend{closing}, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	s := serve(t, "DELTA_GRPC", translated(t, objects, translate.DefaultOptions()))
	for i := range int64(10) {
		got := s.mustGet(t, "http://shop.example.com/", nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "" ||
			got.header.Get(translate.ReasonHeader) != translate.ReasonReset {
			t.Fatalf("got %d %v, want 503 with reason %s", got.status, got.header, translate.ReasonReset)
		}
		if received := requests.Load(); received != i+1 {
			t.Fatalf("the app received %d requests of %d", received, i+1)
		}
	}
}

// TestWeightsInTheDump reads the weights where the demo reads them.
func TestWeightsInTheDump(t *testing.T) {
	t.Parallel()
	s := serve(t, "DELTA_GRPC", translated(t, hostInputs(t), translate.DefaultOptions()))
	dump, err := s.Admin(t.Context(), envoyadmin.RoutesPath)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, scope := range map[string]string{"apps/shop/": "shop.example.com", "apps/wide/": "*"} {
		routes, err := envoyadmin.ParseRoutes(dump, prefix)
		if err != nil || len(routes) != 1 || routes[0].Scope != scope {
			t.Errorf("routes to %s: %+v, %v; want one in scope %s", prefix, routes, err, scope)
		}
	}
}
