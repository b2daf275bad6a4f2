package envoy_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// statusPort is the port of the proxy for probes and statistics, adminPort that of Envoy's admin interface.
	statusPort, adminPort = 9901, 9902
	// statusRequests is the counter of the requests that the proxy has sent to its admin interface.
	statusRequests = "cluster.admin.upstream_rq_total"
)

// status sends a request to the port for probes and statistics.
func (n *node) status(t *testing.T, method, path string, header http.Header) (int, string) {
	t.Helper()
	at := "http://" + netip.AddrPortFrom(n.served[0], statusPort).String() + path
	request, err := http.NewRequestWithContext(t.Context(), method, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := (&http.Client{
		Timeout: await.Patience(), Transport: &http.Transport{DisableKeepAlives: true},
	}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestStatusPort sends requests to the only port besides those for clients: it answers probes and statistics, and
// passes nothing else on to the admin interface.
func TestStatusPort(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4))
	n.check(t, n.served[0])
	for path, want := range map[string]string{
		"/ready":            "LIVE",
		"/stats/prometheus": "envoy_cluster_upstream_rq_total{",
		"/stats/prometheus?usedonly&filter=upstream_rq_total":        "envoy_cluster_upstream_rq_total{",
		"/stats?format=json&filter=%5Ecluster.*upstream_rq_total%24": `"` + statusRequests + `"`,
	} {
		if code, body := n.status(t, http.MethodGet, path, nil); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d, want 200 with %q: %.300s", path, code, want, body)
		}
	}
	for _, path := range []string{
		"/", "/config_dump", "/config_dump?include_eds", "/clusters", "/listeners", "/server_info", "/memory", "/certs",
		"/quitquitquit", "/logging", "/stats/recentlookups", "/stats/", "/ready/", "//ready", "/READY",
		"/stats/../config_dump", "/stats/prometheus/../../config_dump", "/ready%2f..%2fconfig_dump", "/%72eady",
		"/ready;/config_dump", "/stats%3f/config_dump",
	} {
		if code, body := n.status(t, http.MethodGet, path, nil); code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404: %.300s", path, code, body)
		}
	}
	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if code, body := n.status(t, method, "/ready", nil); code != http.StatusNotFound {
			t.Errorf("%s /ready: %d, want 404: %.300s", method, code, body)
		}
	}
}

// TestAdminInterface connects to the admin interface: by the loopback address, as `kubectl port-forward` does, it has
// the page of the guide, and by the address of the Pod it is closed.
func TestAdminInterface(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4))
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), adminPort).String()
	dump, err := traffic.Get(t.Context(), "http://"+loopback+"/config_dump", "", nil)
	if err != nil || !strings.Contains(string(dump.Body), `"name": "`+namespace+`/app/app"`) {
		t.Errorf("/config_dump on the loopback address: %v, %.300s", err, dump.Body)
	}
	fromNetwork := netip.AddrPortFrom(n.served[0], adminPort).String()
	if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", fromNetwork); err == nil {
		t.Errorf("%s accepts connections", fromNetwork)
		_ = connection.Close()
	}
}

// TestStatusPortIgnoresControlHeaders sends headers by which a client could have Envoy repeat a request.
func TestStatusPortIgnoresControlHeaders(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4))
	before := n.stat(t, statusRequests)
	code, body := n.status(t, http.MethodGet, "/ready", http.Header{
		"X-Envoy-Retry-On": {"retriable-status-codes"}, "X-Envoy-Retriable-Status-Codes": {"200"},
		"X-Envoy-Max-Retries": {"20"},
	})
	if code != http.StatusOK {
		t.Errorf("/ready: %d %s", code, body)
	}
	if sent := n.stat(t, statusRequests) - before; sent != 1 {
		t.Errorf("the proxy has sent %d requests to its admin interface, want 1", sent)
	}
}

// TestStatusPortAtConnectionLimit opens as many connections as a proxy accepts: a further client is rejected, and
// probes succeed.
func TestStatusPortAtConnectionLimit(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4),
		"max_active_downstream_connections: 50000", "max_active_downstream_connections: 2")
	client := netip.AddrPortFrom(n.served[0], translate.ListenerPort).String()
	for range 2 {
		idle := dial(t, client)
		if err := idle.write("GET / HTTP/1.1", "Host: app.test"); err != nil {
			t.Fatal(err)
		}
		if answer := idle.read(http.MethodGet); answer.err != nil || answer.status != http.StatusOK {
			t.Fatalf("a connection below the limit: %+v", answer)
		}
	}
	rejected := dial(t, client)
	if _, err := rejected.Read(make([]byte, 1)); err == nil {
		t.Error("a connection above the limit is open")
	}
	if code, body := n.status(t, http.MethodGet, "/ready", nil); code != http.StatusOK {
		t.Errorf("/ready at the limit of connections: %d %s", code, body)
	}
}
