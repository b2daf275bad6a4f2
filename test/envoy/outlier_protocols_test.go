package envoy_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestFailingPodOfEachProtocolIsEjected: one of three Pods of an app for HTTP/2 or TLS refuses connections, does not
// answer them, or fails each TLS handshake. No request fails, and soon that Pod receives none.
func TestFailingPodOfEachProtocolIsEjected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protocol model.Protocol
		failing  func(*testing.T) netip.AddrPort
	}{
		"HTTP2, refuses":           {model.HTTP2, func(*testing.T) netip.AddrPort { return refusing() }},
		"HTTP2, drops":             {model.HTTP2, silent},
		"TLS, refuses":             {model.HTTPS, func(*testing.T) netip.AddrPort { return refusing() }},
		"TLS, drops":               {model.HTTPS, silent},
		"TLS, closes":              {model.HTTPS, rawAddress(func(net.Conn) {})},
		"TLS, speaks clear text":   {model.HTTPS, rawAddress(rejectInClearText)},
		"TLS, silent in handshake": {model.HTTPS, rawAddress(readOnly)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inputs := newInputs(t, []*backend{
				startBackendFor(t, "shop", c.protocol), startBackendFor(t, "other", c.protocol),
			}, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
			inputs.EndpointSlices[1].Service.Name = "shop"
			inputs.Services[0].Ports[0].Protocol = c.protocol
			withEndpoint(&inputs, "shop", c.failing(t))
			checkEjection(t, inputs)
		})
	}
}

// rawAddress returns a function that starts an app whose connections are served by another function.
func rawAddress(serve func(net.Conn)) func(*testing.T) netip.AddrPort {
	return func(t *testing.T) netip.AddrPort {
		t.Helper()
		address, err := netip.ParseAddrPort(startRawBackend(t, "failing", serve).server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
}

// rejectInClearText answers a TLS handshake as servers for clear text do.
func rejectInClearText(connection net.Conn) {
	if _, err := connection.Read(make([]byte, 4096)); err == nil {
		_, _ = io.WriteString(connection, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	}
}

// readOnly reads a connection and answers nothing.
func readOnly(connection net.Conn) {
	buffer := make([]byte, 1024)
	for {
		if _, err := connection.Read(buffer); err != nil {
			return
		}
	}
}

// TestRetryBudget: one of three Pods refuses connections while the others have a hundred active requests. By default the
// number of concurrent retries has no limit, so no request fails. With a limit that is too low, requests fail at once.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	const active, more = 100, 40
	const noEjection = "outlier_detection: {max_ejection_percent: 0, consecutive_local_origin_failure: 1000}"
	for name, c := range map[string]struct {
		breakers string // the settings
		isEnough bool
	}{
		"the default":      {"", true},
		"a larger budget":  {"retry_budget: {budget_percent: {value: 100}}", true},
		"a smaller budget": {"retry_budget: {budget_percent: {value: 3}}", false},
		"a minimum":        {"retry_budget: {budget_percent: {value: 0}, min_retry_concurrency: 50}", true},
		"no retry":         {"retry_budget: {budget_percent: {value: 0}, min_retry_concurrency: 0}", false},
		"a number":         {"max_retries: 3", false},
		"a larger number":  {"max_retries: 50", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := startBackend(t, "shop"), startBackend(t, "other")
			inputs := newInputs(t, []*backend{first, second},
				kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
			inputs.EndpointSlices[1].Service.Name = "shop"
			settings := "{" + noEjection + "}"
			if c.breakers != "" {
				settings = "{" + noEjection + ", circuit_breakers: {thresholds: [{" + c.breakers + "}]}}"
			}
			withSettings(t, &inputs, settings)
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			answers := make(chan answer, active+more)
			send := func(count int) {
				for range count {
					go func() {
						got, err := p.get(t.Context(), "http://shop.example.com/held", nil)
						if err != nil {
							t.Error(err)
						}
						answers <- got
					}()
				}
			}
			received := 0
			awaitReceived := func(count int) {
				t.Helper()
				await.True(t, "each request is active or answered", func() bool {
					for len(first.arrived) > 0 {
						<-first.arrived
						received++
					}
					for len(second.arrived) > 0 {
						<-second.arrived
						received++
					}
					return received+len(answers) == count
				})
			}
			send(active)
			awaitReceived(active)
			withEndpoint(&inputs, "shop", refusing())
			p.update(t, translated(t, inputs, translate.DefaultOptions()), "cluster.apps/shop/shop.update_success")
			send(more)
			awaitReceived(active + more)
			close(first.release)
			close(second.release)
			statuses := map[int]int{}
			for range active + more {
				got := <-answers
				statuses[got.status]++
				if got.status != http.StatusOK && got.header.Get("Retry-After") != "1" {
					t.Errorf("a request without a retry: %d %v", got.status, got.header)
				}
			}
			overflow := p.stat(t, "cluster.apps/shop/shop.upstream_rq_retry_overflow")
			failed := statuses[http.StatusServiceUnavailable]
			if (failed == 0) != c.isEnough || failed != overflow || statuses[http.StatusOK]+failed != active+more {
				t.Errorf("responses by status: %v, %d retries rejected", statuses, overflow)
			}
			if p.stat(t, "cluster.apps/shop/shop.upstream_cx_connect_fail") == 0 {
				t.Error("the refusing Pod was never tried, so the test proves nothing")
			}
		})
	}
}
