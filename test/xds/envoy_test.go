package test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/port"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// bootstrapText is the part of the installed proxy's bootstrap that discovery needs. Its verbs are api_type and the
// port of the server.
const bootstrapText = `{
  "node": {"id": "kedify-proxy", "cluster": "xds_cluster"},
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
  "dynamic_resources": {
    "ads_config": {"api_type": "%s", "transport_api_version": "V3", "set_node_on_first_message_only": true, "grpc_services": [{"envoy_grpc": {
      "cluster_name": "xds_cluster", "retry_policy": {"retry_back_off": {"base_interval": "0.2s", "max_interval": "1s"}}}}]},
    "lds_config": {"resource_api_version": "V3", "ads": {}},
    "cds_config": {"resource_api_version": "V3", "ads": {}}},
  "static_resources": {"clusters": [{
    "name": "xds_cluster", "type": "STATIC", "connect_timeout": "2s",
    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http2_protocol_options": {}}}},
    "load_assignment": {"cluster_name": "xds_cluster", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
      "socket_address": {"address": "127.0.0.1", "port_value": %d}}}}]}]}}]}}`

// proxy is a running Envoy.
type proxy struct {
	*envoyproc.Envoy

	tb      testing.TB
	address string // of the listener
}

// startProxy runs Envoy until the test ends. apiType is that of the bootstrap, and at is the port of the server.
func startProxy(tb testing.TB, apiType string, at *port.Port) *proxy {
	tb.Helper()
	envoy := envoyproc.Run(tb, fmt.Sprintf(bootstrapText, apiType, netip.MustParseAddrPort(at.Address()).Port()), 1)
	address, err := envoy.ListenerAddress(tb.Context(), "listener")
	if err != nil {
		tb.Fatal(err)
	}
	return &proxy{Envoy: envoy, tb: tb, address: address}
}

// version requests the version of a virtual host that serves.
func (p *proxy) version(host string) string {
	p.tb.Helper()
	got, err := traffic.Get(p.tb.Context(), "http://"+p.address+"/", host, nil)
	version, quoteErr := strconv.Unquote(string(got.Body))
	if err := errors.Join(err, quoteErr); err != nil || got.Status != http.StatusOK {
		p.tb.Fatalf("%s: %d %s, %v", host, got.Status, got.Body, err)
	}
	return version
}

// stats returns Envoy's counters of discovery.
func (p *proxy) stats() string {
	p.tb.Helper()
	text, err := p.Admin(
		p.tb.Context(), "/stats?filter=^(cluster_manager.cds|http.*rds.*)\\.update_(rejected|success)$",
	)
	if err != nil {
		p.tb.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", ")
}

// hasCluster reports whether the proxy has a cluster.
func (p *proxy) hasCluster(cluster string) bool {
	p.tb.Helper()
	text, err := p.Admin(p.tb.Context(), "/clusters")
	if err != nil {
		p.tb.Fatal(err)
	}
	return strings.Contains("\n"+string(text), "\n"+cluster+"::")
}

// startBackend starts a server that responds to every request with its header x-version as a JSON string.
func startBackend(tb testing.TB) *net.TCPAddr {
	tb.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%q", r.Header.Get("X-Version"))
	}))
	tb.Cleanup(backend.Close)
	address, ok := backend.Listener.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("the backend listens on %v", backend.Listener.Addr())
	}
	return address
}

// fleetName is the name of the fleet of all proxies.
const fleetName = "team"

// startServer serves discovery on a port. stop ends it at once, like a kill.
func startServer(tb testing.TB, at *port.Port, options xds.Options) (server *xds.Server, stop func()) {
	tb.Helper()
	server = xds.NewServer(options)
	server.SetMembers(xds.Members{Fleets: map[netip.Addr][]string{netip.MustParseAddr("127.0.0.1"): {fleetName}}})
	// Without pings: on a busy machine Envoy may not answer one while it applies a thousand resources. What a proxy that
	// reconnects reports has other tests.
	grpcServer := grpcserver.New(grpcserver.Options{PingInterval: time.Hour})
	server.Register(grpcServer)
	listener, done := at.Listen(tb), make(chan error, 1)
	go func() { done <- grpcServer.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		grpcServer.Stop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	tb.Cleanup(stop)
	return server, stop
}
