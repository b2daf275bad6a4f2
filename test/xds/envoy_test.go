package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// patience is how long Envoy may take for anything.
const patience = 60 * time.Second

// bootstrapText is the part of the installed proxy's bootstrap that discovery
// needs. Its verbs are the form of the protocol and the port of the server.
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
	tb             testing.TB
	admin, address string
	client         *http.Client
}

// startProxy runs Envoy until the test ends. form is that of the bootstrap.
func startProxy(tb testing.TB, form string, port int) *proxy {
	tb.Helper()
	binary := os.Getenv("ENVOY_BIN")
	if binary == "" {
		tb.Fatal("ENVOY_BIN is not set: set it to the path of an envoy binary of version 1.40")
	}
	folder := tb.TempDir()
	config, adminFile, logFile := filepath.Join(folder, "bootstrap.json"), filepath.Join(folder, "admin"), filepath.Join(folder, "log")
	if err := os.WriteFile(config, fmt.Appendf(nil, bootstrapText, form, port), 0o600); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	command := exec.CommandContext(ctx, binary, "--config-path", config, "--admin-address-path", adminFile, "--log-path", logFile,
		"--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
	if err := command.Start(); err != nil {
		cancel()
		tb.Fatalf("start Envoy: %v", err)
	}
	p := &proxy{tb: tb, client: &http.Client{Timeout: 10 * time.Second}}
	tb.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
		p.client.CloseIdleConnections()
		if log, err := os.ReadFile(logFile); tb.Failed() && err == nil {
			tb.Logf("the end of what Envoy wrote:\n%s", log[max(0, len(log)-4000):])
		}
	})
	testkit.Eventually(tb, patience, "Envoy listens", func() bool {
		admin, err := os.ReadFile(adminFile)
		p.admin = string(admin)
		return err == nil && len(admin) > 0 && p.listens()
	})
	return p
}

// listens asks for the port that Envoy chose for its listener.
func (p *proxy) listens() bool {
	var status struct {
		Listeners []struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	body, err := p.ask("http://"+p.admin+"/listeners?format=json", "")
	if err != nil || json.Unmarshal([]byte(body), &status) != nil || len(status.Listeners) == 0 {
		return false
	}
	socket := status.Listeners[0].Address.Socket
	p.address = net.JoinHostPort(socket.Address, strconv.Itoa(socket.Port))
	_, err = p.ask("http://"+p.admin+"/ready", "")
	return err == nil
}

// ask makes a request and returns the body of an answer of 200.
func (p *proxy) ask(url, host string) (string, error) {
	request, err := http.NewRequestWithContext(p.tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Host = host
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", host, response.Status, body)
	}
	return string(body), err
}

// version asks for the version of a virtual host that serves.
func (p *proxy) version(host string) string {
	p.tb.Helper()
	body, err := p.ask("http://"+p.address+"/", host)
	if err != nil {
		p.tb.Fatal(err)
	}
	return body
}

// stats returns the counters of the discovery in Envoy.
func (p *proxy) stats() string {
	p.tb.Helper()
	body, err := p.ask("http://"+p.admin+"/stats?filter=^(cluster_manager.cds|http.*rds.*)\\.update_(rejected|success)$", "")
	if err != nil {
		p.tb.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(body), "\n", ", ")
}

// startBackend answers every request with its header x-version.
func startBackend(tb testing.TB) *net.TCPAddr {
	tb.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Version"))
	}))
	tb.Cleanup(backend.Close)
	address, is := backend.Listener.Addr().(*net.TCPAddr)
	if !is {
		tb.Fatalf("the backend listens on %v", backend.Listener.Addr())
	}
	return address
}

// startServer serves discovery on a port, 0 for any; stop ends it at once, as a
// kill does.
func startServer(tb testing.TB, port int, options ...xds.Option) (server *xds.Server, boundPort int, stop func()) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		tb.Fatal(err)
	}
	address, is := listener.Addr().(*net.TCPAddr)
	if !is {
		tb.Fatalf("the server listens on %v", listener.Addr())
	}
	server = xds.NewServer(options...)
	over := grpc.NewServer(xds.GRPCOptions()...)
	server.Register(over)
	done := make(chan error, 1)
	go func() { done <- over.Serve(listener) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		over.Stop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
	}
	tb.Cleanup(stop)
	return server, address.Port, stop
}
