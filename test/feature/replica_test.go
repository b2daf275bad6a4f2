package feature

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
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

// logBuffer contains the lines of a log.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *logBuffer) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String returns the lines so far.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// replica is one interceptor.
type replica struct {
	xds     *xds.Server
	log     *logBuffer
	address string // where it serves discovery
	conn    *grpc.ClientConn
	stop    func()

	sink                      *sink.Sink
	sinkListener              net.Listener
	sinkAddress, adminAddress string
}

// elect calls lead if the replica is elected.
type elect func(ctx context.Context, lead func(context.Context)) error

// always elects the replica.
func always(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

// never elects the replica.
func never(ctx context.Context, _ func(context.Context)) error {
	<-ctx.Done()
	return nil
}

// successor elects the replica once it is closed.
type successor chan struct{}

func (s successor) elect(ctx context.Context, lead func(context.Context)) error {
	select {
	case <-ctx.Done():
	case <-s:
		lead(ctx)
	}
	return nil
}

// start starts an elected interceptor that watches c, and returns when it serves. It stops with the test, or earlier by
// its stop.
func (c *fakeCluster) start() *replica {
	c.t.Helper()
	return c.startReplica("interceptor-0", always)
}

// startReplica starts an interceptor that watches c, and returns when it serves. It stops with the test, or earlier by
// its stop.
func (c *fakeCluster) startReplica(name string, elected elect) *replica {
	c.t.Helper()
	log := new(logBuffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	r := &replica{log: log, xds: xds.NewServer(xds.Options{
		Grace: 50 * time.Millisecond, MembershipTimeout: c.membershipTimeout, Logger: logger, MembershipHint: "see the guide",
		DrainedListeners: []string{translate.ListenerName},
	})}
	registry := prometheus.NewRegistry()
	reporting, err := status.New(status.Options{
		Client: c, Source: controlplane.ProxyStates{Server: r.xds}, Elect: elected, Replica: name, Registerer: registry,
		Logger: logger,
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
			ScaledObjects: watched(c.scaledObjects), Services: watched(c.services), EndpointSlices: watched(c.slices),
			Replicas: watched(c.replicas),
		},
		Resolve:   c.options,
		Translate: c.flags, Publisher: controlplane.Publisher{Server: r.xds, Sink: r.sink},
		Observers:  []ingest.Observer{reporting, controlplane.DemandObserver{Sink: r.sink}},
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
	await.Described(c.t, "the first lists", func() bool {
		select {
		case <-loop.Seeded():
			return true
		default:
			return false
		}
	}, func() string { return fmt.Sprintf("waiting for %q", loop.Waiting()) })
	r.listen(c.t, reporting.Register)
	c.storeReplica(name, r.address)
	closeServer := r.stop
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		closeServer()
	})
	c.t.Cleanup(r.stop)
	return r
}

// proxy connects a Ready proxy of namespace apps to r. Its address is one of this host.
func (c *fakeCluster) proxy(r *replica, mode kit.XDSMode, address string) *kit.XDSClient {
	c.t.Helper()
	c.addProxy("apps", address, true)
	return kit.NewXDSClient(c.t, c.dial(r, address), mode)
}

// dial connects to r from an address. The connection ends with the test.
func (c *fakeCluster) dial(r *replica, from string) *grpc.ClientConn {
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

// listen serves discovery, and the services that register adds, on its own port and connects to it.
func (r *replica) listen(t *testing.T, register func(grpc.ServiceRegistrar)) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpcserver.New(grpcserver.Options{})
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

// modes returns both modes of the discovery protocol.
func modes() map[string]kit.XDSMode {
	return map[string]kit.XDSMode{"delta": kit.XDSDelta, "state of the cluster": kit.XDSStateOfTheWorld}
}

// weights returns the clusters that receive the requests for a host, with their weights; a single one has weight 100.
// It is nil if the host is unknown.
func weights(state kit.XDSState, host string) map[string]uint32 {
	for _, virtual := range state.Scopes[translate.ScopeOf(model.Host(host))].GetRouteConfiguration().GetVirtualHosts() {
		if virtual.GetName() == host {
			return weightsOf(virtual.GetRoutes()[0].GetRoute())
		}
	}
	return nil
}

// weightsOf returns the clusters of one action with their weights.
func weightsOf(action *routev3.RouteAction) map[string]uint32 {
	if name := action.GetCluster(); name != "" {
		return map[string]uint32{name: 100}
	}
	weights := map[string]uint32{}
	for _, weighted := range action.GetWeightedClusters().GetClusters() {
		weights[weighted.GetName()] = weighted.GetWeight().GetValue()
	}
	return weights
}

// addresses returns the endpoints of a cluster in their order.
func addresses(state kit.XDSState, name string) []string {
	var addresses []string
	for _, locality := range state.Endpoints[name].GetEndpoints() {
		for _, endpoint := range locality.GetLbEndpoints() {
			addresses = append(addresses, endpoint.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	return addresses
}
