package envoy_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestHTTP10: requests over HTTP/1.0 are answered, counted and queued as others.
func TestHTTP10(t *testing.T) {
	t.Parallel()
	requests := [][]string{
		{"GET / HTTP/1.0", "Host: shop.example.com"},
		{"GET / HTTP/1.0", "Host: shop.example.com", "User-Agent: ApacheBench/2.3", "Accept: */*"},
		{"GET / HTTP/1.0", "Host: shop.example.com", "Connection: keep-alive"},
		{"GET / HTTP/1.0", "Host: SHOP.example.com.:80"},
		{"POST / HTTP/1.0", "Host: shop.example.com", "Content-Length: 0"},
		{"POST / HTTP/1.0", "Host: shop.example.com", "Content-Length: 6\r\n\r\nab"}, // write adds four bytes
		{"PUT / HTTP/1.0", "Host: shop.example.com", "Content-Length: 0", "Connection: keep-alive"},
		{"OPTIONS / HTTP/1.0", "Host: shop.example.com", "Connection: close"},
		{"GET http://shop.example.com/ HTTP/1.0"},
		{"GET http://shop.example.com/ HTTP/1.0", "Host: other.example.com"}, // RFC 9112, section 3.2.2
		{"GET / HTTP/1.0", "Host: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.2"},
		{"HEAD / HTTP/1.0", "Host: shop.example.com"},
		{"HEAD / HTTP/1.0", "Host: shop.example.com", "Connection: keep-alive"},
	}
	for _, state := range states() {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			all := hostInputs(t)
			r := startWithReplica(t, "DELTA_GRPC", all)
			for i, got := range r.sendIn(t, state, all, requests) {
				isHead := strings.HasPrefix(requests[i][0], http.MethodHead)
				if got.status != http.StatusOK || !isHead && got.backend() != "shop" || isHead && got.body != "" {
					t.Errorf("%q: %+v", requests[i], got)
				}
			}
		})
	}
}

// TestHTTP10Connections: a connection ends with the response, unless the client requests otherwise and the response has
// a length. A response in chunks is sent without them.
func TestHTTP10Connections(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", hostInputs(t))
	kept := dial(t, r.address)
	for range 3 {
		got := kept.send("GET /size HTTP/1.0", "Host: shop.example.com", "Connection: keep-alive")
		if got.status != http.StatusOK || got.header.Get("Connection") == "close" {
			t.Fatalf("with keep-alive: %+v", got)
		}
	}
	closing := dial(t, r.address)
	if got := closing.send("GET /size HTTP/1.0", "Host: shop.example.com"); got.status != http.StatusOK {
		t.Errorf("without keep-alive: %+v", got)
	}
	if _, err := closing.reader.ReadByte(); err == nil {
		t.Error("the connection is still open")
	}
	chunks := dial(t, r.address).send("GET /stream HTTP/1.0", "Host: shop.example.com", "Connection: keep-alive")
	if chunks.status != http.StatusOK || chunks.body != strings.Repeat("chunk\n", 4) ||
		chunks.header.Get("Transfer-Encoding") != "" {
		t.Errorf("a response in chunks: %+v", chunks)
	}
}

// TestHTTP10WithoutHost: the request belongs to the object for all hosts. Without such an object it has an unknown host.
func TestHTTP10WithoutHost(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r := startWithReplica(t, "DELTA_GRPC", hostInputs(t))
		for _, lines := range [][]string{
			{method + " / HTTP/1.0"}, {method + " / HTTP/1.0", "Host:"}, {method + " / HTTP/1.0", "Connection: keep-alive"},
		} {
			got := dial(t, r.address).send(lines...)
			if got.status != http.StatusNotFound || method == http.MethodGet && got.body != translate.NotFoundBody {
				t.Errorf("%q: %+v", lines, got)
			}
		}
		for _, agent := range probeAgents() {
			got := dial(t, r.address).send(method+" /healthz HTTP/1.0", "User-Agent: "+agent)
			if !isProbeAnswer(got) {
				t.Errorf("%s from %s: %+v", method, agent, got)
			}
		}
	}
	app := startBackend(t, "all")
	p := start(t, translated(t, newInputs(t, []*backend{app}, kit.NewScaledObject(namespace, "all", "all", 1, "*")),
		translate.DefaultOptions()))
	got := dial(t, p.address).send("GET / HTTP/1.0")
	var seen echoed
	if err := json.Unmarshal([]byte(got.body), &seen); err != nil || seen.Host != "no-host.invalid" {
		t.Errorf("the app for all hosts: %+v, %v", got, err)
	}
	if got := dial(t, p.address).send("GET / HTTP/1.1"); got.status != http.StatusBadRequest {
		t.Errorf("HTTP/1.1 requires a Host: %+v", got)
	}
}
