package feature

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	// localProxy is the address of a proxy that connects to replica.conn. It is one of namespace apps.
	localProxy = "127.0.0.1"
	// sharedFleet is the namespace of the interceptor.
	sharedFleet = "keda"
)

// cluster plays the API server: objects can be stored, which watches see, and statuses and Events can be written.
type cluster struct {
	t                               *testing.T
	scaledObjects, services, slices *cachetesting.FakeControllerSource
	replicas                        *cachetesting.FakeControllerSource
	options                         resolve.Options   // of replicas that start
	flags                           translate.Options // of replicas that start
	patience                        time.Duration     // of replicas that start, with addresses that they do not know
	clock                           *clock            // of their metric sinks
	reporters                       []*reporter

	mu       sync.Mutex
	proxies  map[string]map[string]bool                     // of each namespace, by address, and whether they are Ready
	statuses map[string]httpv1alpha1.HTTPScaledObjectStatus // by name of the HTTPScaledObject
	events   []string
}

// newCluster returns a cluster without objects. It ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t:             t,
		scaledObjects: cachetesting.NewFakeControllerSource(),
		services:      cachetesting.NewFakeControllerSource(),
		slices:        cachetesting.NewFakeControllerSource(),
		replicas:      cachetesting.NewFakeControllerSource(),
		options:       resolve.Options{SharedFleet: sharedFleet},
		flags:         translate.DefaultOptions(),
		patience:      await.Patience(),
		clock:         newClock(),
		proxies:       map[string]map[string]bool{},
		statuses:      map[string]httpv1alpha1.HTTPScaledObjectStatus{},
	}
	t.Cleanup(func() {
		for _, source := range []*cachetesting.FakeControllerSource{c.scaledObjects, c.services, c.slices, c.replicas} {
			source.Shutdown()
		}
	})
	c.joins("apps", localProxy, false) // It is not Ready, so that reports don't count it.
	return c
}

// store creates or changes objects. It keeps none of them.
func (c *cluster) store(objects ...runtime.Object) {
	c.t.Helper()
	for _, object := range objects {
		object = object.DeepCopyObject()
		switch kind := object.GetObjectKind().GroupVersionKind().Kind; kind {
		case httpv1alpha1.Kind:
			c.scaledObjects.Modify(object)
		case "Service":
			c.services.Modify(object)
		case "EndpointSlice":
			c.slices.Modify(object)
		default:
			c.t.Fatalf("the cluster has no kind %q", kind)
		}
	}
}

// app stores a Service with endpoints.
func (c *cluster) app(name string, addresses ...string) {
	c.t.Helper()
	c.store(kit.NewService("apps", name), kit.NewEndpointSlice("apps", name, addresses...))
}

// ApplyStatus is status.Client's. The stored object stays as it is: what the interceptor makes of its own writes is tested in package status.
func (c *cluster) ApplyStatus(_ context.Context, object *httpv1alpha1.HTTPScaledObject, is httpv1alpha1.HTTPScaledObjectStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[object.Name] = is
	return nil
}

// CreateEvent is status.Client's.
func (c *cluster) CreateEvent(_ context.Context, event *eventsv1.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event.Regarding.Name+" "+event.Type+" "+event.Reason)
	return nil
}

// waitFor waits until a condition on what was written holds. describe says what there is when it never does.
func (c *cluster) waitFor(holds func() bool, describe func() string) {
	c.t.Helper()
	await.Described(c.t, "what is written", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return holds()
	}, func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return describe()
	})
}

// waitForCondition waits until a condition of an HTTPScaledObject has this status and reason, and returns its message.
func (c *cluster) waitForCondition(name, kind string, is metav1.ConditionStatus, reason string) (message string) {
	c.t.Helper()
	find := func() *metav1.Condition { return meta.FindStatusCondition(c.statuses[name].Conditions, kind) }
	c.waitFor(
		func() bool {
			found := find()
			if found == nil || found.Status != is || found.Reason != reason {
				return false
			}
			message = found.Message
			return true
		},
		func() string {
			return fmt.Sprintf("condition %s of %s is %+v, want %s with reason %s", kind, name, find(), is, reason)
		},
	)
	return message
}

// waitForEvents waits until exactly these Events were written, oldest first.
func (c *cluster) waitForEvents(want ...string) {
	c.t.Helper()
	c.waitFor(
		func() bool { return slices.Equal(c.events, want) },
		func() string { return fmt.Sprintf("events %q, want %q", c.events, want) },
	)
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write is io.Writer's.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String is what was logged so far.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// replica is one interceptor.
type replica struct {
	xds     *xds.Server
	logged  *lines
	address string // where it serves discovery
	conn    *grpc.ClientConn
	stop    func()

	sink                      *sink.Sink
	sinkListener              net.Listener
	sinkAddress, adminAddress string
}

// elect elects a replica or doesn't.
type elect func(ctx context.Context, lead func(context.Context)) error

// always elects.
func always(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

// never elects.
func never(ctx context.Context, _ func(context.Context)) error {
	<-ctx.Done()
	return nil
}

// successor is elected once it is closed.
type successor chan struct{}

func (s successor) elect(ctx context.Context, lead func(context.Context)) error {
	select {
	case <-ctx.Done():
	case <-s:
		lead(ctx)
	}
	return nil
}

// start starts an interceptor that watches c and is elected, and returns when it serves. It stops with the test, or earlier by its stop.
func (c *cluster) start() *replica {
	c.t.Helper()
	return c.startReplica("interceptor-0", always)
}

// startReplica starts an interceptor that watches c, and returns when it serves. It stops with the test, or earlier by its stop.
func (c *cluster) startReplica(name string, elected elect) *replica {
	c.t.Helper()
	logged := new(lines)
	logger := slog.New(slog.NewTextHandler(logged, nil))
	r := &replica{logged: logged, xds: xds.NewServer(xds.Options{
		Grace: 50 * time.Millisecond, MembershipTimeout: c.patience, Logger: logger, MembershipHint: "see the guide",
		DrainedListeners: []string{translate.ListenerName},
	})}
	registry := prometheus.NewRegistry()
	reporting, err := status.New(status.Options{
		Client: c, Source: controlplane.ProxyStates{Server: r.xds}, Elect: elected, Replica: name, Registerer: registry, Logger: logger,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	r.startSink(c, name, registry)
	watched := func(source *cachetesting.FakeControllerSource) []cache.ListerWatcherWithContext {
		return []cache.ListerWatcherWithContext{cache.ToListerWatcherWithContext(source)}
	}
	loop, err := ingest.New(ingest.Options{
		Sources: ingest.Sources{
			ScaledObjects: watched(c.scaledObjects), Services: watched(c.services), EndpointSlices: watched(c.slices), Replicas: watched(c.replicas),
		},
		Resolve:   c.options,
		Translate: c.flags, Publisher: controlplane.Publisher{Server: r.xds, Sink: r.sink},
		Observers:  []observation.Observer{reporting, controlplane.Demand{Sink: r.sink}},
		Registerer: registry, Logger: logger,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := loop.Run(ctx); err != nil {
			c.t.Errorf("Run = %v", err)
		}
	})
	running.Go(func() {
		if err := reporting.Run(ctx, loop.Observed()); err != nil {
			c.t.Errorf("Run = %v", err)
		}
	})
	admin, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	r.adminAddress = admin.Addr().String()
	pages := http.NewServeMux()
	r.sink.Register(pages)
	running.Go(func() { r.serveSink(ctx, c.t) })
	running.Go(func() {
		if err := server.ServeHTTP(ctx, admin, pages, logger); err != nil {
			c.t.Errorf("serve: %v", err)
		}
	})
	await.Described(c.t, "the end of the seeding", func() bool {
		select {
		case <-loop.Seeded():
			return true
		default:
			return false
		}
	}, func() string { return fmt.Sprintf("waiting for %q", loop.Waiting()) })
	r.listen(c.t, reporting.Register)
	c.announce(name, r.address)
	closeServer := r.stop
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		closeServer()
	})
	c.t.Cleanup(r.stop)
	return r
}

// announce stores where a replica is.
func (c *cluster) announce(name, address string) {
	c.t.Helper()
	at := netip.MustParseAddrPort(address)
	slice := kit.NewEndpointSlice("keda", "interceptors-"+name, at.Addr().String())
	port, portName := int32(at.Port()), peers.PortName
	slice.Ports[0].Port, slice.Ports[0].Name = &port, &portName
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: name}
	c.replicas.Modify(slice)
}

// proxy starts a proxy of the namespace apps, which is Ready and has an address of this host's own network, and connects it to r.
func (c *cluster) proxy(r *replica, mode kit.XDSMode, address string) *kit.XDSClient {
	c.t.Helper()
	c.joins("apps", address, true)
	return kit.NewXDSClient(c.t, c.dial(r, address), mode)
}

// joins has a proxy be an endpoint of its namespace's Service.
func (c *cluster) joins(namespace, address string, isReady bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proxies[namespace] == nil {
		c.proxies[namespace] = map[string]bool{}
	}
	c.proxies[namespace][address] = isReady
	c.storeProxies(namespace)
}

// leaves has a proxy no longer be one.
func (c *cluster) leaves(namespace, address string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.proxies[namespace], address)
	c.storeProxies(namespace)
}

// ends has the Pod of a proxy be about to end: it serves, and takes nothing new.
func (c *cluster) ends(namespace, address string) {
	c.t.Helper()
	slice := kit.NewEndpointSlice(namespace, resolve.ProxyService, address)
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "kedify-proxy-" + address}
	c.slices.Modify(slice)
}

// storeProxies stores the EndpointSlice of a namespace's proxies. The caller holds the lock.
func (c *cluster) storeProxies(namespace string) {
	slice := kit.NewEndpointSlice(namespace, resolve.ProxyService)
	for address, isReady := range c.proxies[namespace] {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "kedify-proxy-" + address},
		})
	}
	c.slices.Modify(slice)
}

// dial connects to r from an address. The connection ends with the test.
func (c *cluster) dial(r *replica, from string) *grpc.ClientConn {
	c.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := grpc.NewClient("passthrough:///"+r.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// listen serves discovery, and what register adds, on a port of its own and connects to it.
func (r *replica) listen(t *testing.T, register func(grpc.ServiceRegistrar)) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(xds.GRPCOptions()...)
	r.xds.Register(server)
	register(server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	r.address = listener.Addr().String()
	r.conn, err = grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	r.stop = func() {
		if err := r.conn.Close(); err != nil {
			t.Errorf("close the connection: %v", err)
		}
		r.xds.Close()
		server.GracefulStop()
		serving.Wait()
	}
}

// modes are both forms of the discovery protocol.
func modes() map[string]kit.XDSMode {
	return map[string]kit.XDSMode{"delta": kit.XDSDelta, "state of the world": kit.XDSStateOfTheWorld}
}

// shares returns the clusters that get the requests for a host, with their weights; a single one has weight 100. It is nil when the host is unknown.
func shares(state kit.XDSState, host string) map[string]uint32 {
	for _, virtual := range state.Scopes[translate.ScopeOf(model.Host(host))].GetRouteConfiguration().GetVirtualHosts() {
		if virtual.GetName() == host {
			return sharesOf(virtual.GetRoutes()[0].GetRoute())
		}
	}
	return nil
}

// sharesOf returns the clusters of one action with their weights.
func sharesOf(action *routev3.RouteAction) map[string]uint32 {
	if name := action.GetCluster(); name != "" {
		return map[string]uint32{name: 100}
	}
	found := map[string]uint32{}
	for _, weighted := range action.GetWeightedClusters().GetClusters() {
		found[weighted.GetName()] = weighted.GetWeight().GetValue()
	}
	return found
}

// addresses returns the endpoints of a cluster in their order.
func addresses(state kit.XDSState, name string) []string {
	var found []string
	for _, locality := range state.Endpoints[name].GetEndpoints() {
		for _, endpoint := range locality.GetLbEndpoints() {
			found = append(found, endpoint.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	return found
}
