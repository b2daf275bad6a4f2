package envoy_test

import (
	"net/http"
	"net/http/httptest"
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
