package envoy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// node is a proxy on the real ports, in a network namespace as on a node with certain IP families.
type node struct {
	*proxy

	server *xds.Server
	app    *backend
	queue  *controlplane.Holding
	inputs resolve.Inputs
	served []netip.Addr // of the proxy's Pod, the first one first
	checks netip.AddrPort
}

// proxySlices returns the EndpointSlices of the proxy, one for each address.
func proxySlices(addresses ...netip.Addr) (slices []*resolve.EndpointSlice) {
	for _, address := range addresses {
		slice := kit.NewEndpointSlice(namespace, resolve.ProxyService, address.String())
		slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "kedify-proxy-x"}
		if address.Is6() {
			slice.Name, slice.AddressType = slice.Name+"-ipv6", discoveryv1.AddressTypeIPv6
		}
		slices = append(slices, kit.ResolveEndpointSlices(slice)...)
	}
	return slices
}

// assign has the interceptor see the proxy's addresses.
func (n *node) assign(addresses ...netip.Addr) {
	controlplane.Publisher{Server: n.server}.Assign(resolve.Inputs{EndpointSlices: proxySlices(addresses...)}.Proxies())
}

// agentBootstrap returns the bootstrap that the agent installs. first is the first address of Pods in the cluster.
func agentBootstrap(t *testing.T, first netip.Addr) string {
	t.Helper()
	needed := proxies.Namespace{Name: namespace, IsNeeded: true, Settings: proxies.Settings{IPv6: first.Is6()}}
	plan, err := needed.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range plan.Apply {
		if text, isBootstrap, _ := unstructured.NestedString(object.Object, "data", "envoy.yaml"); isBootstrap {
			return text
		}
	}
	t.Fatal("the agent installs no bootstrap")
	return ""
}

// addressesOf returns the addresses of a node with certain IP families, the IPv4 address first.
func addressesOf(families netspace.Families) (addresses []netip.Addr) {
	for _, address := range []netip.Addr{netspace.Address(), netspace.AddressIPv6()} {
		if families.Has(address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// startNode starts an app, the interceptor's server at the first of the node's addresses, and the proxy. Each change
// replaces its first text in the bootstrap by its second.
func startNode(t *testing.T, addresses []netip.Addr, changes ...string) *node {
	t.Helper()
	first := addresses[0]
	queue, err := extauthz.New(extauthz.Options{
		Limits: manyQueued(), Registerer: prometheus.NewRegistry(), Notify: func(model.Key, holding.Reason) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{proxy: &proxy{}, served: addresses, queue: &controlplane.Holding{Server: queue, Timeout: time.Hour}}
	n.server = xds.NewServer(xds.Options{
		Grace: xds.DefaultGrace, IPv6Listeners: translate.IPv6Listeners(), DrainedListeners: translate.ClientListeners(),
		Callbacks: n.queue,
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(first, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	n.checks = netip.MustParseAddrPort(listener.Addr().String())
	object := withTLSSecret(kit.NewScaledObject(namespace, "app", "app", 1, "app.test"), "app")
	n.app = startBackendAt(t, "app", first)
	n.inputs = newInputs(t, []*backend{n.app}, object)
	n.publish(t, n.inputs)
	n.assign(first)
	grpcServer := grpcserver.New(grpcserver.Options{})
	n.server.Register(grpcServer)
	queue.Register(grpcServer)
	serveGRPC(t, grpcServer, listener)
	bootstrap := strings.NewReplacer(append(changes, sinkService, `"`+first.String()+`"`,
		"port_value: 5678", fmt.Sprintf("port_value: %d", n.checks.Port()))...).Replace(agentBootstrap(t, first))
	n.Envoy = envoyproc.Run(t, bootstrap, 2)
	return n
}

// publish publishes inputs, with a certificate for app.test, as the interceptor does.
func (n *node) publish(t *testing.T, inputs resolve.Inputs) {
	t.Helper()
	options := translate.DefaultOptions()
	options.TLS, options.IPv6, options.Hold.Checks = true, true, n.checks
	resources := withCertificates(t, options, namespace, inputs, kit.NewTLSSecret(t, namespace, "app", 7, "app.test"))
	published := controlplane.Publisher{Server: n.server}
	if err := published.Publish(namespace, translate.Update{Changed: resources}, true); err != nil {
		t.Fatal(err)
	}
	n.queue.Observe(passOf(inputs, page.Default()))
}

// checkQueue sends a request to each of the addresses while the app is at zero, and then makes it ready.
func (n *node) checkQueue(t *testing.T) {
	t.Helper()
	waiting := func() int {
		counts, _ := n.queue.Server.Counts()
		return counts[model.Key{Namespace: namespace, Name: "app"}].Waiting
	}
	n.publish(t, without(n.inputs, "app"))
	answers := make(chan error, len(n.served))
	for i, address := range n.served {
		// Until the proxy has the change, the app answers.
		await.True(t, "a request is queued", func() bool {
			go func() {
				got, err := traffic.Get(t.Context(), "http://"+netip.AddrPortFrom(address, translate.ListenerPort).String()+"/",
					"app.test", nil)
				if err == nil && got.Status != http.StatusOK {
					err = fmt.Errorf("%s: status %d %s", address, got.Status, got.Body)
				}
				answers <- err
			}()
			await.True(t, "it is queued or answered", func() bool { return waiting() > i || len(answers) > 0 })
			if len(answers) == 0 {
				return true
			}
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
			return false
		})
	}
	n.publish(t, n.inputs)
	for range n.served {
		if err := <-answers; err != nil {
			t.Errorf("a queued request: %v", err)
		}
	}
}

// startBackendAt is startBackend at an address.
func startBackendAt(t *testing.T, name string, address netip.Addr) *backend {
	t.Helper()
	b := newBackend(name)
	if err := b.server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	b.server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	b.server.Start()
	b.closeAfter(t)
	return b
}

// check sends a request to each listener at each of the addresses.
func (n *node) check(t *testing.T, addresses ...netip.Addr) {
	t.Helper()
	for _, address := range addresses {
		got, err := traffic.Get(t.Context(), "http://"+netip.AddrPortFrom(address, translate.ListenerPort).String()+"/",
			"app.test", nil)
		if err != nil || got.Status != http.StatusOK {
			t.Errorf("%s: %d %s, %v", address, got.Status, got.Body, err)
		}
		at := netip.AddrPortFrom(address, translate.TLSPort).String()
		connection, serial, err := handshake(t.Context(), at, "app.test")
		if err != nil || serial != 7 {
			t.Errorf("%s over TLS: certificate %d, %v", address, serial, err)
			continue
		}
		_ = connection.Close()
	}
}

// listeners returns the addresses at which the proxy listens for clients.
func (n *node) listeners(t *testing.T) []string {
	t.Helper()
	text, err := n.Admin(t.Context(), "/listeners")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		name, address, _ := strings.Cut(strings.TrimSpace(line), "::")
		if slices.Contains(translate.ClientListeners(), name) {
			found = append(found, address)
		}
	}
	slices.Sort(found)
	return found
}

// TestListenersOfIPFamilies runs the installed proxy on nodes with IPv4, with IPv6, and with both: the kubelet's probe
// of the Pod's first address succeeds, and requests to each of its addresses are answered.
func TestListenersOfIPFamilies(t *testing.T) {
	t.Parallel()
	only4, both := []string{"0.0.0.0:8080", "0.0.0.0:8443"}, []string{"0.0.0.0:8080", "0.0.0.0:8443", "[::]:8080", "[::]:8443"}
	for name, c := range map[string]struct {
		families    netspace.Families
		isIPv6First bool
		want        []string
	}{
		"IPv4":                   {netspace.IPv4, false, only4},
		"IPv6":                   {netspace.IPv6, true, both},
		"dual-stack, IPv4 first": {netspace.DualStack, false, both},
		"dual-stack, IPv6 first": {netspace.DualStack, true, both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !netspace.Isolate(t, c.families) {
				return
			}
			addresses, want := addressesOf(c.families), c.want
			if addresses[0].Is6() != c.isIPv6First {
				slices.Reverse(addresses)
			}
			n := startNode(t, addresses)
			n.assign(n.served...)
			await.Described(t, "the listeners", func() bool { return slices.Equal(n.listeners(t), want) },
				func() string { return strings.Join(n.listeners(t), " ") })
			n.check(t, n.served...)
			probe := "http://" + netip.AddrPortFrom(n.served[0], 9901).String() + "/ready"
			if got, err := traffic.Get(t.Context(), probe, "", nil); err != nil || got.Status != http.StatusOK {
				t.Errorf("%s: %d %s, %v", probe, got.Status, got.Body, err)
			}
			if rejected := n.stat(t, "listener_manager.lds.update_rejected"); rejected != 0 {
				t.Errorf("Envoy rejected %d updates of listeners", rejected)
			}
			n.checkQueue(t)
			n.check(t, n.served...)
		})
	}
}

// TestComponentsListenOnIPFamilies opens a port as the interceptor, the scaler and the agent do: it accepts connections
// to each address of the Pod.
func TestComponentsListenOnIPFamilies(t *testing.T) {
	t.Parallel()
	for _, families := range []netspace.Families{netspace.IPv4, netspace.IPv6, netspace.DualStack} {
		t.Run(string(families), func(t *testing.T) {
			t.Parallel()
			if !netspace.Isolate(t, families) {
				return
			}
			listener, err := server.Listen(t.Context(), "test", ":8080", "--test-address")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			for _, address := range addressesOf(families) {
				connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", netip.AddrPortFrom(address, 8080).String())
				if err != nil {
					t.Error(err)
					continue
				}
				_ = connection.Close()
			}
		})
	}
}

// TestProxyBecomesDualStack adds an IPv6 address to a proxy with an open connection, and removes it: both drain
// nothing.
func TestProxyBecomesDualStack(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.DualStack) {
		return
	}
	n := startNode(t, addressesOf(netspace.DualStack))
	first, second := n.served[0], n.served[1]
	n.check(t, first)
	connection, reader := openConnection(t, first)
	defer connection.Close()
	n.assign(first, second)
	await.True(t, "the proxy listens on IPv6", func() bool { return len(n.listeners(t)) == 4 })
	n.check(t, first, second)
	overIPv6, readerIPv6 := openConnection(t, second)
	defer overIPv6.Close()
	n.assign(first)
	n.server.SetMembers(xds.Members{}) // Service kedify-proxy was deleted by accident.
	n.assign(first)
	requestOn(t, connection, reader)
	requestOn(t, overIPv6, readerIPv6)
	n.check(t, first, second)
	for _, stat := range []string{"listener_modified", "listener_removed", "total_listeners_draining"} {
		if got := n.stat(t, "listener_manager."+stat); got != 0 {
			t.Errorf("%s: %d", stat, got)
		}
	}
}

// TestRejectedIPv6Listener has a proxy that cannot listen on IPv6: it keeps what it has, and receives weights.
func TestRejectedIPv6Listener(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.DualStack) {
		return
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::]:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	n := startNode(t, addressesOf(netspace.DualStack))
	n.assign(n.served...)
	listener := translate.IPv6Listeners()[0]
	await.True(t, "the rejection", func() bool {
		isRejected := false
		n.server.Poll(func(state xds.StreamState) {
			isRejected = state.Resource(resourcev3.ListenerType, listener).Nacked != ""
		})
		return isRejected
	})
	n.check(t, n.served[0])
	n.publish(t, newInputs(t, []*backend{startBackendAt(t, "other", n.served[0])},
		kit.NewScaledObject(namespace, "other", "other", 1, "other.test")))
	url := "http://" + netip.AddrPortFrom(n.served[0], translate.ListenerPort).String() + "/"
	await.True(t, "the new host", func() bool {
		got, err := traffic.Get(t.Context(), url, "other.test", nil)
		return err == nil && got.Status == http.StatusOK
	})
}

// openConnection opens a connection to the listener in clear text, and sends a first request.
func openConnection(t *testing.T, address netip.Addr) (net.Conn, *bufio.Reader) {
	t.Helper()
	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp",
		netip.AddrPortFrom(address, translate.ListenerPort).String())
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	requestOn(t, connection, reader)
	return connection, reader
}

// requestOn sends a request on an open connection. The proxy must keep the connection open.
func requestOn(t *testing.T, connection net.Conn, reader *bufio.Reader) {
	t.Helper()
	if _, err := connection.Write([]byte("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("%s: %v", connection.RemoteAddr(), err)
	}
	defer response.Body.Close()
	var seen echoed
	if err := json.NewDecoder(response.Body).Decode(&seen); err != nil || response.StatusCode != http.StatusOK ||
		response.Close {
		t.Errorf("%s: %d, Connection: close is %t, %v", connection.RemoteAddr(), response.StatusCode, response.Close, err)
	}
}
