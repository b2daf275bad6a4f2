package envoy_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/split"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// TestSplit measures the share of a canary, then moves weights and endpoints under load: no request may fail, and no connection may be closed for it.
func TestSplit(t *testing.T) {
	t.Parallel()
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	publish := func(stableWeight, canaryWeight uint32) translate.Resources {
		object := testkit.WithSplit(testkit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com"),
			split.Backend{Service: "stable", Weight: stableWeight}, split.Backend{Service: "canary", Weight: canaryWeight})
		return translated(t, world(t, []*backend{stable, canary}, object), translate.DefaultOptions())
	}
	const routesTaken = "http.kedify-proxy.rds.kedify-proxy.update_success"
	p := start(t, publish(80, 20))
	checkShare(t, p, 0.2)

	listeners := p.stat(t, "listener_manager.lds.update_success")
	load := p.startLoad(t)
	for _, weight := range []uint32{50, 80, 0, 100} {
		p.update(t, publish(100-weight, weight), routesTaken)
		checkShare(t, p, float64(weight)/100)
	}
	load.stop(t)
	if after := p.stat(t, "listener_manager.lds.update_success"); after != listeners {
		t.Errorf("a weight step updated the listener: %d → %d", listeners, after)
	}
}

// checkShare sends 2000 requests and compares the canary's share with what is wanted. Beyond 3 standard deviations, which happens by chance once in 370
// times, it looks at twice as many again and fails beyond 3.5.
func checkShare(t *testing.T, p *proxy, want float64) {
	t.Helper()
	count, limit := 2000, 3.0
	for {
		canary := 0
		for range count {
			got := p.mustAsk(t, "http://shop.example.com/", nil)
			switch {
			case got.status != http.StatusOK:
				t.Fatalf("a request failed with %d", got.status)
			case got.seen.Backend == "canary":
				canary++
			}
		}
		sigma := math.Sqrt(float64(count) * want * (1 - want))
		off := math.Abs(float64(canary) - want*float64(count))
		if off <= limit*sigma {
			return
		}
		if limit > 3 {
			t.Fatalf("%d of %d requests went to the canary, want %.0f %%: off by %.1f standard deviations", canary, count, 100*want, off/sigma)
		}
		count, limit = 2*count, 3.5
	}
}

// load is requests in the background.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	sent   int
	failed []string
}

// startLoad sends requests on connections that stay, over HTTP/1.1 and HTTP/2.
func (p *proxy) startLoad(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	for _, h2 := range []bool{false, true} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!h2)
		protocols.SetUnencryptedHTTP2(h2)
		transport := &http.Transport{Protocols: protocols, MaxConnsPerHost: 1}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport, Timeout: patience}
		l.done.Go(func() {
			for ctx.Err() == nil {
				got, err := p.ask(context.WithoutCancel(ctx), client, "http://shop.example.com/", nil)
				l.count(got, err)
			}
		})
	}
	return l
}

// count takes note of one request. That a connection was closed shows in the answer's header.
func (l *load) count(got answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil || got.status != http.StatusOK || strings.EqualFold(got.header.Get("Connection"), "close") {
		l.failed = append(l.failed, fmt.Sprintf("status %d, error %v, connection %q", got.status, err, got.header.Get("Connection")))
	}
}

// stop ends the load and fails the test if a request failed.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	l.done.Wait()
	if l.sent == 0 || len(l.failed) > 0 {
		t.Errorf("of %d requests in the background %d failed or lost their connection: %.3q", l.sent, len(l.failed), l.failed)
	}
}
