package envoy_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// TestTimeouts: a response must begin before the timeout, but has no limit for its end.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	b := startBackend(t, "slow")
	object := kit.NewScaledObject(namespace, "slow", "slow", 1, "slow.example.com")
	object.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &metav1.Duration{Duration: 2 * chunkPause}}
	p := start(t, translated(t, newInputs(t, []*backend{b}, object), translate.DefaultOptions()))
	if got := p.mustGet(t, "http://slow.example.com/silent", nil); got.status != http.StatusGatewayTimeout {
		t.Errorf("an app that does not answer: got %d, want 504", got.status)
	}
	await.True(t, "a stream that takes longer than the limit for headers is answered", func() bool {
		return p.mustGet(t, "http://slow.example.com/stream", nil).status == http.StatusOK
	})
	if retries := p.stat(t, "cluster.apps/slow/slow.upstream_rq_retry"); retries != 0 {
		t.Errorf("%d requests were retried", retries)
	}
}

// TestNoReadyEndpoint: the host is known, so the response has a Retry-After header.
func TestNoReadyEndpoint(t *testing.T) {
	t.Parallel()
	b := startBackend(t, "empty")
	objects := newInputs(t, []*backend{b}, kit.NewScaledObject(namespace, "empty", "empty", 1, "empty.example.com"))
	objects.EndpointSlices = nil
	p := start(t, translated(t, objects, translate.DefaultOptions()))
	got := p.mustGet(t, "http://empty.example.com/", nil)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" {
		t.Errorf("got %d with %v, want 503 with Retry-After", got.status, got.header)
	}
}

// TestRetryAfterWithoutUpstream: the response has a Retry-After header if no endpoint accepts connections, and if the
// app has no capacity for more requests.
func TestRetryAfterWithoutUpstream(t *testing.T) {
	t.Parallel()
	b := startBackend(t, "gone")
	objects := newInputs(t, []*backend{b}, kit.NewScaledObject(namespace, "gone", "gone", 1, "gone.example.com"))
	objects.EndpointSlices[0].Endpoints[0].Address = loopback.Address() // No process listens there.
	full := translate.DefaultOptions()
	full.MaxPendingRequests = 0
	for name, c := range map[string]struct {
		options translate.Options
		counter string
	}{
		"connection refused": {translate.DefaultOptions(), "upstream_cx_connect_fail"},
		"no capacity":        {full, "upstream_rq_pending_overflow"},
	} {
		p := start(t, translated(t, objects, c.options))
		got := p.mustGet(t, "http://gone.example.com/", nil)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: got %d with %v, want 503 with Retry-After", name, got.status, got.header)
		}
		if p.stat(t, "cluster.apps/gone/gone."+c.counter) == 0 {
			t.Errorf("%s: counter %s is 0", name, c.counter)
		}
	}
}

// TestDraining removes an endpoint in two steps while it has a request.
func TestDraining(t *testing.T) {
	t.Parallel()
	draining, remaining := startBackend(t, "old"), startBackend(t, "young")
	objects := newInputs(t, []*backend{draining, remaining},
		kit.NewScaledObject(namespace, "shop", "old", 1, "shop.example.com"))
	// Both apps are endpoints of the Service old: two slices, each with a port number of its own.
	slice := objects.EndpointSlices[1]
	slice.Service.Name = "old"
	p := start(t, translated(t, objects, translate.DefaultOptions()))
	answers := make(chan answer, 100)
	failures := make(chan string, 100)
	var sending sync.WaitGroup
	sendLong := func() {
		sending.Go(func() {
			got, err := p.get(t.Context(), "http://shop.example.com/held", nil)
			if err != nil || got.status != http.StatusOK {
				failures <- fmt.Sprintf("got %d, %v", got.status, err)
				return
			}
			answers <- got
		})
	}
	for {
		sendLong()
		select {
		case <-remaining.arrived:
			continue
		case <-draining.arrived:
		}
		break
	}
	const endpointsUpdated = "cluster.apps/shop/old.update_success"
	endpoint := &objects.EndpointSlices[0].Endpoints[0]
	endpoint.IsReady, endpoint.IsServing, endpoint.HasServing, endpoint.IsTerminating = false, true, true, true
	p.update(t, translated(t, objects, translate.DefaultOptions()), endpointsUpdated)
	for range 50 {
		if got := p.mustGet(t, "http://shop.example.com/", nil); got.seen.Backend != "young" {
			t.Fatalf("a new request went to %q, which drains (status %d)", got.seen.Backend, got.status)
		}
	}
	objects.EndpointSlices = objects.EndpointSlices[1:]
	p.update(t, translated(t, objects, translate.DefaultOptions()), endpointsUpdated)
	close(draining.release)
	close(remaining.release)
	sending.Wait()
	close(answers)
	close(failures)
	for failure := range failures {
		t.Errorf("a request in flight failed: %s", failure)
	}
	served := map[string]int{}
	for got := range answers {
		served[got.seen.Backend]++
	}
	if served["old"] != 1 {
		t.Errorf("the removed endpoint answered %d requests, want 1", served["old"])
	}
}
