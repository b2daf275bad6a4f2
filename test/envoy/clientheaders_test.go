package envoy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// controlHeaders returns headers by which a client can control Envoy if Envoy regards it as internal.
func controlHeaders() []string {
	return []string{
		"X-Envoy-Upstream-Rq-Timeout-Ms: 50", "X-Envoy-Upstream-Rq-Per-Try-Timeout-Ms: 50",
		"X-Envoy-Upstream-Stream-Duration-Ms: 50", "X-Envoy-Expected-Rq-Timeout-Ms: 50",
		"X-Envoy-Upstream-Alt-Stat-Name: chosen-by-a-client", "X-Envoy-Upstream-Rq-Timeout-Alt-Response: 1",
		"X-Envoy-Retry-On: 5xx", "X-Envoy-Retry-Grpc-On: unavailable", "X-Envoy-Max-Retries: 9",
		"X-Envoy-Retriable-Status-Codes: 200", "X-Envoy-Retriable-Header-Names: server",
		"X-Envoy-Hedge-On-Per-Try-Timeout: true", "X-Envoy-Force-Trace: 1", "X-Envoy-Ip-Tags: a",
		"X-Envoy-Decorator-Operation: a", "X-Envoy-Downstream-Service-Cluster: a", "X-Envoy-Downstream-Service-Node: a",
		"X-Envoy-Original-Path: /a", "X-Envoy-Original-Host: a", "X-Envoy-Original-Url: a", "X-Envoy-Internal: true",
		"X-Envoy-Attempt-Count: 9", "X-Envoy-Unknown: a", "X-ENVOY-UPSTREAM-RQ-TIMEOUT-MS: 50",
	}
}

// TestClientsCannotControlEnvoy: no header x-envoy-* of a client has an effect or reaches the app, whatever address the
// client has or claims to have.
func TestClientsCannotControlEnvoy(t *testing.T) {
	t.Parallel()
	var requests [][]string
	for _, client := range []string{"", "8.8.8.8", "10.1.2.3", "127.0.0.1", "::1", "fd00::1", "255.255.255.255"} {
		for _, header := range append(controlHeaders(), strings.Join(controlHeaders(), "\r\n")) {
			lines := []string{"GET /slow HTTP/1.1", "Host: shop.example.com", header}
			if client != "" {
				lines = append(lines, "X-Forwarded-For: "+client)
			}
			requests = append(requests, lines)
		}
	}
	for _, hops := range []uint32{0, 1} {
		for _, state := range states() {
			t.Run(fmt.Sprintf("%s, %d trusted hops", state, hops), func(t *testing.T) {
				t.Parallel()
				all := hostInputs(t)
				r := startTrusting(t, hops, all, nil)
				for i, got := range r.sendIn(t, state, all, requests) {
					var seen echoed
					if err := json.Unmarshal([]byte(got.body), &seen); err != nil || seen.Backend != "shop" {
						t.Errorf("%q: %+v", requests[i], got)
					}
					for name := range seen.Header {
						if strings.HasPrefix(name, "X-Envoy-") && name != "X-Envoy-External-Address" {
							t.Errorf("%q: the app saw %s", requests[i], name)
						}
					}
				}
				stats, err := r.Admin(t.Context(), "/stats?filter=chosen-by-a-client")
				if err != nil || len(stats) > 0 {
					t.Errorf("statistics with a name from a client: %.300s, %v", stats, err)
				}
			})
		}
	}
}

// startTrusting starts a replica and a proxy with trusted hops, which has all statistics of clusters. The proxy has the
// TLS listener if there are certificates.
func startTrusting(t *testing.T, hops uint32, all resolve.Inputs, certificates []*corev1.Secret) *replica {
	t.Helper()
	r := startReplica(t, manyQueued())
	r.options.TrustedHops, r.options.TLS, r.secrets = hops, len(certificates) > 0, certificates
	r.proxy = &proxy{}
	resources := r.publishInputs(t, all)
	r.run(t, "DELTA_GRPC", r.grpcAddress, [2]string{"suffix: .upstream_rq_time", "prefix: cluster."})
	r.await(t, resources)
	return r
}

// TestStatisticsHaveNoNamesOfClients: Envoy has the same statistics after requests with different names.
func TestStatisticsHaveNoNamesOfClients(t *testing.T) {
	t.Parallel()
	app := startBackend(t, "plain")
	p := start(t, translated(t, newInputs(t, []*backend{app},
		kit.NewScaledObject(namespace, "plain", "plain", 1, "plain.example.com")), translate.DefaultOptions()))
	names := func() int {
		stats, err := p.Admin(t.Context(), "/stats")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(stats), "\n")
	}
	send := func(name string) {
		got := dial(t, p.address).send("GET / HTTP/1.1", "Host: plain.example.com",
			"X-Envoy-Upstream-Alt-Stat-Name: "+name, "User-Agent: "+name, "X-Request-Id: "+name)
		if got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	}
	for range 20 { // until each worker has had a request
		send("first")
	}
	before := names()
	for i := range 20 {
		send(fmt.Sprintf("name-%d", i))
	}
	if after := names(); after != before {
		t.Errorf("%d statistics became %d", before, after)
	}
}
