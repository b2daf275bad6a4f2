package envoy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// sinkService is the Service to which proxies connect for xDS and metrics.
const sinkService = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"

// served is an Envoy with the installed bootstrap, and its xDS server.
type served struct {
	*proxy

	server *xds.Server
	args   []string // additional arguments of Envoy
	// workers is the number of worker threads of Envoy, 2 by default.
	workers int
}

// serve starts both. They stop with the test. form is the api_type in the bootstrap, to which changes are applied.
func serve(t *testing.T, form string, resources translate.Resources, changes ...[2]string) *served {
	t.Helper()
	envoyproc.Binary(t)
	server := xds.NewServer(xds.Options{Grace: xds.DefaultGrace})
	server.SetMembers(xds.Members{Fleets: map[netip.Addr][]string{netip.MustParseAddr("127.0.0.1"): {namespace}}})
	grpcServer := grpcserver.New(grpcserver.Options{})
	server.Register(grpcServer)
	listener := listen(t)
	serveGRPC(t, grpcServer, listener)
	s := &served{proxy: &proxy{}, server: server}
	s.publish(t, resources)
	s.run(t, form, listener.Addr().String(), changes...)
	return s
}

// listen opens any free local port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// serveGRPC serves on a listener until the test ends.
func serveGRPC(t *testing.T, server *grpcserver.Server, listener net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// run starts Envoy, which connects to the xDS server at address.
func (s *served) run(t *testing.T, form, address string, changes ...[2]string) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, err := envoyproc.InstalledBootstrap("../..", append(changes, [2]string{
		"api_type: DELTA_GRPC", "api_type: " + form,
	},
		[2]string{sinkService, "127.0.0.1"}, [2]string{"port_value: 5678", "port_value: " + port},
		[2]string{"port_value: 9901", "port_value: 0"}, [2]string{"port_value: 9902", "port_value: 0"})...)
	if err != nil {
		t.Fatal(err)
	}
	s.Envoy = envoyproc.Run(t, bootstrap, cmp.Or(s.workers, 2), s.args...)
	if s.address, err = s.ListenerAddress(t.Context(), translate.ListenerName); err != nil {
		t.Fatal(err)
	}
}

// publish publishes resources, with any free local port for the listeners.
func (s *served) publish(t *testing.T, resources translate.Resources) {
	t.Helper()
	for name, message := range resources[resourcev3.ListenerType] {
		listener, ok := message.(*listenerv3.Listener)
		if !ok {
			t.Fatalf("listener %s is a %T", name, message)
		}
		listener = proto.CloneOf(listener)
		if socket := listener.GetAddress().GetSocketAddress(); socket != nil {
			socket.Address, socket.PortSpecifier = "127.0.0.1", &corev3.SocketAddress_PortValue{PortValue: 0}
		}
		resources[resourcev3.ListenerType][name] = listener
	}
	if err := s.server.Publish(namespace, resources); err != nil {
		t.Fatal(err)
	}
}

// await waits until the proxy has acknowledged the published version of every scope.
func (s *served) await(t *testing.T, resources translate.Resources) {
	t.Helper()
	await.True(t, "the proxy has every scope", func() bool {
		hasAll := false
		s.server.Poll(func(state xds.StreamState) {
			hasAll = true
			for name := range resources[resourcev3.ScopedRouteType] {
				acked := state.Resource(resourcev3.ScopedRouteType, name).Acked
				hasAll = hasAll && acked != "" && acked == s.server.Versions()(namespace, resourcev3.ScopedRouteType, name)
			}
		})
		return hasAll
	})
}

// protocols returns the protocols of the tests' clients.
func protocols() []string { return []string{"HTTP/1.1", "HTTP/2"} }

// request sends one GET request on a new connection.
func (s *served) request(t *testing.T, protocol, host, path string, header http.Header) (status int, body string) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	connection, err := transport.NewClientConn(t.Context(), "http", s.address) // sends a request once
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx := await.Context(t)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Header = host, header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	response, err := connection.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s%s: %v", protocol, host, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// hostCases returns the backend for each host and path. An empty want means 404.
func hostCases() []struct {
	host, path string
	header     http.Header
	want       string
} {
	return []struct {
		host, path string
		header     http.Header
		want       string
	}{
		{host: "shop.example.com", want: "shop"},
		{host: "shop.example.com:8080", want: "shop"},
		{host: "SHOP.example.Com", want: "shop"},
		{host: "shop.example.com.", want: "shop"},
		{host: "Shop.Example.COM.:81", want: "shop"},
		{host: "a.example.com", want: "wide"},
		{host: "a.example.com:8080", want: "wide"},
		{host: "A.EXAMPLE.com", want: "wide"},
		{host: "a.example.com.", want: "wide"},
		{host: "a.b.eu.example.com", want: "narrow"},
		{host: "A.EU.example.com.:1", want: "narrow"},
		{host: "example.com"},
		{host: "unknown.example.org"},
		{host: "Unknown.Example.ORG.:80"},
		{host: "paths.example.com", path: "/app/x", want: "app"},
		{host: "PATHS.example.com", path: "/app", want: "app"},
		// A known host never falls through to a wildcard.
		{host: "paths.example.com", path: "/apple"},
		{host: "Paths.example.com.", path: "/other"},
		{host: "headers.example.com"},
		{host: "headers.example.com", header: http.Header{"X-Canary": {"1"}}, want: "headers"},
		{host: "Headers.Example.com:1", header: http.Header{"X-Canary": {"1"}}, want: "headers"},
		{host: "[2001:db8::1]", want: "six"},
		{host: "[2001:DB8::1]:8080", want: "six"},
		{host: "[::1]:8080", path: "/app", want: "loopback"},
		{host: "[::1]"},
		{host: "[2001:db8::2]:8080"},
		{host: "[2001:db8::1"},
		{host: "*"},
		// The proxy ignores the scope header of a client.
		{host: "unknown.example.org", header: http.Header{"X-Kedify-Scope": {"shop.example.com"}}},
		{host: "a.example.com", header: http.Header{"X-Kedify-Scope": {"shop.example.com"}}, want: "wide"},
		{host: "shop.example.com", header: http.Header{"X-Kedify-Scope": {"*", "other"}}, want: "shop"},
	}
}

// hostInputs returns inputs with an object for each kind of host.
func hostInputs(t *testing.T) resolve.Inputs {
	t.Helper()
	var backends []*backend
	object := func(name, host string) *httpv1alpha1.HTTPScaledObject {
		backends = append(backends, startBackend(t, name))
		return kit.NewScaledObject(namespace, name, name, len(backends), host)
	}
	app, headers := object("app", "paths.example.com"), object("headers", "headers.example.com")
	loopback := object("loopback", "[::1]")
	app.Spec.PathPrefixes, loopback.Spec.PathPrefixes = []string{"/app"}, []string{"/app"}
	one := "1"
	headers.Spec.Headers = []httpv1alpha1.Header{{Name: "X-Canary", Value: &one}}
	objects := []*httpv1alpha1.HTTPScaledObject{
		app, headers, object("shop", "shop.example.com"), object("wide", "*.example.com"),
		object("narrow", "*.eu.example.com"), object("six", "[2001:DB8:0::1]:80"), loopback,
	}
	return newInputs(t, backends, objects...)
}

// TestHostsOverDiscovery sends the requests of hostCases with the xDS server and the installed bootstrap, for both xDS
// variants and both HTTP versions.
func TestHostsOverDiscovery(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := serve(t, form, translated(t, hostInputs(t), translate.DefaultOptions()))
			for _, protocol := range protocols() {
				for _, c := range hostCases() {
					path := c.path
					if path == "" {
						path = "/"
					}
					status, body := s.request(t, protocol, c.host, path, c.header)
					var got echoed
					if status == http.StatusOK {
						if err := json.Unmarshal([]byte(body), &got); err != nil {
							t.Fatal(err)
						}
					} else if status != http.StatusNotFound || body != translate.NotFoundBody {
						t.Errorf("%s %s%s: %d %q", protocol, c.host, path, status, body)
					}
					if got.Backend != c.want || c.want != "" && got.Host != c.host {
						t.Errorf("%s %s%s %v: answered by %q as %q, want %q", protocol, c.host, path, c.header, got.Backend, got.Host,
							c.want)
					}
					if name := "X-Kedify-Scope"; got.Header.Get(name) != "" {
						t.Errorf("%s %s: the app saw %s %q", protocol, c.host, name, got.Header.Get(name))
					}
				}
			}
		})
	}
}

// TestNoHosts: objects without hosts get the requests for every host that no other object has, by path and headers.
func TestNoHosts(t *testing.T) {
	t.Parallel()
	all, api, team, shop := startBackend(t, "all"), startBackend(t, "api"), startBackend(t, "team"), startBackend(t, "shop")
	objects := []*httpv1alpha1.HTTPScaledObject{
		kit.NewScaledObject(namespace, "all", "all", 1), kit.NewScaledObject(namespace, "api", "api", 2),
		kit.NewScaledObject(namespace, "team", "team", 3), kit.NewScaledObject(namespace, "shop", "shop", 4, "shop.example.com"),
	}
	objects[1].Spec.Hosts, objects[1].Spec.PathPrefixes = []string{}, []string{"/api"}
	objects[2].Spec.Headers = []httpv1alpha1.Header{{Name: "X-Team"}}
	p := start(t, translated(t, newInputs(t, []*backend{all, api, team, shop}, objects...), translate.DefaultOptions()))
	for _, c := range []struct{ path, host, want string }{
		{"/", "shop.example.com", "shop"},
		{"/api", "shop.example.com", "shop"}, // a known host never falls through
		{"/", "anything.test", "all"},
		{"/", "Anything.TEST.:80", "all"},
		{"/", "10.0.0.1", "all"},
		{"/", "[::1]:80", "all"},
		{"/api/v1", "anything.test", "api"},
		{"/apis", "anything.test", "all"},
		{"/", "anything.test\r\nX-Team: a", "team"},
		{"/api", "[::1]\r\nX-Team: a", "api"}, // a longer path precedes a header
		{"/", "localhost", "all"},
		{"/", "xn--bcher-kva.example", "all"},
		{"/", "under_score.test", "all"},
	} {
		if got := dial(t, p.address).send("GET "+c.path+" HTTP/1.1", "Host: "+c.host); got.backend() != c.want {
			t.Errorf("%q%s: %+v, want an answer by %s", c.host, c.path, got, c.want)
		}
	}
}

// TestRequestForms: requests that servers must reject, or that are for no path, reach no app, and the connection of the
// next client is served.
func TestRequestForms(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", hostInputs(t))
	const get, host = "GET / HTTP/1.1", "Host: shop.example.com"
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{[]string{get, host, "Content-Length: 0", "Transfer-Encoding: chunked"}, http.StatusBadRequest}, // smuggling
		{[]string{get, host, "Content-Length: 0", "Content-Length: 5"}, http.StatusBadRequest},
		{[]string{get, host, "Content-Length: -1"}, http.StatusBadRequest},
		{[]string{get, host, "X-Bad Name: 1"}, http.StatusBadRequest},
		{[]string{get, host, "X-Bad: \x00"}, http.StatusBadRequest},
		{[]string{get}, http.StatusBadRequest},
		{[]string{"GET /", host}, http.StatusNotFound},                   // HTTP/0.9 has no headers
		{[]string{get, host, "Host: other.test"}, http.StatusBadRequest}, // RFC 9112, section 3.2
		{[]string{"OPTIONS * HTTP/1.1", host}, http.StatusNotFound},
		{[]string{"CONNECT shop.example.com:443 HTTP/1.1", host}, http.StatusNotFound},
	} {
		got := dial(t, r.address).send(c.lines...)
		if got.status != c.want || got.backend() != "" {
			t.Errorf("%q: %+v, want %d", c.lines, got, c.want)
		}
		if got := dial(t, r.address).send(get, host); got.backend() != "shop" {
			t.Errorf("after %q: %+v", c.lines, got)
		}
	}
}

// TestInvalidHosts: a request with several Host headers, or with a Host that is no host with an optional port, reaches
// no app, neither that of a host in it nor one for all hosts. Envoy joins several headers with commas.
func TestInvalidHosts(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	rest := startBackend(t, "rest")
	others := newInputs(t, []*backend{rest}, kit.NewScaledObject(namespace, "rest", "rest", 20, "*"))
	all.ScaledObjects = append(all.ScaledObjects, others.ScaledObjects...)
	all.Services = append(all.Services, others.Services...)
	all.EndpointSlices = append(all.EndpointSlices, others.EndpointSlices...)
	s := serve(t, "DELTA_GRPC", translated(t, all, translate.DefaultOptions()))
	for _, lines := range [][]string{
		{"GET / HTTP/1.1", "Host: shop.example.com", "Host: other.test"},
		{"GET / HTTP/1.1", "Host: shop.example.com", "Host: shop.example.com"},
		{"GET / HTTP/1.1", "Host: shop.example.com:80", "Host: other.test"},
		{"GET / HTTP/1.1", "Host: other.test", "host: shop.example.com", "HOST: a.example.com"},
		{"GET / HTTP/1.1", "Host: a.example.com", "Host: b.example.com"},
		{"GET / HTTP/1.1", "Host: [2001:db8::1]", "Host: shop.example.com"},
		{"GET / HTTP/1.1", "Host: paths.example.com:80", "Host: paths.example.com"},
		{"POST / HTTP/1.1", "Host: shop.example.com:80", "Content-Length: 0", "Host: other.test"},
		{"GET / HTTP/1.0", "Host: shop.example.com:80", "Host: other.test"},
	} {
		got := dial(t, s.address).send(lines...)
		if got.status != http.StatusBadRequest || got.body != translate.InvalidHostBody {
			t.Errorf("%q: %+v, want 400", lines, got)
		}
	}
	for _, host := range []string{
		"shop.example.com,other.test", "shop.example.com:80,other.test", "shop.example.com,", ",shop.example.com",
		"shop.example.com:80:81", "shop.example.com:http", "shop.example.com:80x", "shop.example.com::80",
		"user@shop.example.com", "shop.example.com:80@other.test", "[::1]:80,shop.example.com", "::1",
	} {
		if got := dial(t, s.address).send("GET / HTTP/1.1", "Host: "+host); got.status != http.StatusBadRequest {
			t.Errorf("Host %q: %+v, want 400", host, got)
		}
	}
	for host, want := range map[string]string{
		"shop.example.com:": "shop", "shop.example.com.:80": "shop", "a%2cb.example.com": "wide", "[::2]:80": "rest",
	} {
		if got := dial(t, s.address).send("GET / HTTP/1.1", "Host: "+host); got.backend() != want {
			t.Errorf("Host %q: %+v, want an answer by %s", host, got, want)
		}
	}
	if status, body := s.request(t, "HTTP/2", "shop.example.com:80,other.test", "/", nil); status != http.StatusBadRequest {
		t.Errorf("over HTTP/2: %d %q, want 400", status, body)
	}
}

// TestHostsComeAndGo adds and removes hosts under load for three others: an exact one, one in upper case, and one that
// matches a wildcard. None of their requests fails, and the listener is not updated.
func TestHostsComeAndGo(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			base := hostInputs(t)
			before := translated(t, base, translate.DefaultOptions())
			s := serve(t, form, before)
			var loads []*traffic.Traffic
			for host, app := range map[string]string{
				"shop.example.com": "shop", "SHOP.example.com": "shop", "a.example.com": "wide",
			} {
				loads = append(loads, traffic.Start(t, s.address, host, 1000, app))
			}
			updates := s.stat(t, "listener_manager.lds.update_success")
			for range 10 {
				more := base
				for i := range 20 {
					more.ScaledObjects = append(slices.Clip(more.ScaledObjects),
						kit.NewScaledObject(namespace, fmt.Sprintf("new-%d", i), "shop", 100+i, fmt.Sprintf("new-%d.example.com", i)))
				}
				grown := translated(t, more, translate.DefaultOptions())
				s.publish(t, grown)
				s.await(t, grown)
				s.eventually(t, "New-7.example.com", "shop")
				s.publish(t, before)
				s.eventually(t, "new-7.example.com", "wide")
			}
			for _, load := range loads {
				load.Stop()
			}
			if got := s.stat(t, "listener_manager.lds.update_success"); got != updates {
				t.Errorf("the listener was updated %d times", got-updates)
			}
			for _, stat := range []string{"listener_manager.listener_modified", "listener_manager.total_listeners_draining"} {
				if got := s.stat(t, stat); got != 0 {
					t.Errorf("%s: %d", stat, got)
				}
			}
		})
	}
}

// eventually waits until an app responds for a host.
func (s *served) eventually(t *testing.T, host, app string) {
	t.Helper()
	await.True(t, app+" answers for "+host, func() bool {
		status, body := s.request(t, "HTTP/1.1", host, "/", nil)
		return status == http.StatusOK && strings.Contains(body, fmt.Sprintf(`"Backend":%q`, app))
	})
}
