package footprint

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// fakeAPIServer plays the API server. It stores no objects: each list creates them again.
type fakeAPIServer struct {
	size    size
	changes chan watch.Event // changes of HTTPScaledObjects

	mu      sync.Mutex
	version int
	acked   map[string]int32 // by name, the number of proxies that have the object according to its last status
}

// source is a list of the server, and its watch.
type source struct {
	list  func() apiruntime.Object
	watch watch.Interface
}

func (s source) List(metav1.ListOptions) (apiruntime.Object, error) { return s.list(), nil }

func (s source) Watch(metav1.ListOptions) (watch.Interface, error) { return s.watch, nil }

// listerWatchers returns a source in the type of ingest.
func listerWatchers(list func() apiruntime.Object, changes chan watch.Event) []cache.ListerWatcherWithContext {
	return []cache.ListerWatcherWithContext{cache.ToListerWatcherWithContext(
		source{list, watch.NewProxyWatcher(changes)},
	)}
}

// ApplyStatus implements status.Client. The watch sends the object back.
func (s *fakeAPIServer) ApplyStatus(
	_ context.Context, object *httpv1alpha1.HTTPScaledObject, is httpv1alpha1.HTTPScaledObjectStatus,
) error {
	number, err := strconv.Atoi(object.Name[len("web-"):])
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.version++
	version := s.size.objects + s.version
	s.acked[object.Name] = is.DataPlane.Proxies.Acked
	s.mu.Unlock()
	s.changes <- watch.Event{Type: watch.Modified, Object: deepCopy(s.size.scaledObject(number, version, is))}
	return nil
}

// CreateEvent implements status.Client.
func (s *fakeAPIServer) CreateEvent(context.Context, *eventsv1.Event) error { return nil }

// isReported reports whether every object has a status, and the objects of the first fleet are acknowledged by all
// proxies.
func (s *fakeAPIServer) isReported() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.size.objects {
		acked, ok := s.acked[objectName(i)]
		if !ok || s.size.fleetName(i) == s.size.fleetName(0) && int(acked) != s.size.proxies {
			return false
		}
	}
	return true
}

// leadImmediately is an election with a single candidate.
func leadImmediately(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

// interceptor is an interceptor with all of its proxies.
type interceptor struct {
	tb      testing.TB
	server  *fakeAPIServer
	address string
	running sync.WaitGroup
	isOver  func() bool // reports whether stop was called
	stop    func()
	kept    []any // live while the heap is measured
	// onScopes is called with the number of scopes that a proxy has received and ACKed; nil for none.
	onScopes func(count int)
}

// startInterceptor starts an interceptor and returns when it is idle. It stops with the test.
func startInterceptor(tb testing.TB, size size) *interceptor {
	tb.Helper()
	s := &interceptor{tb: tb, server: &fakeAPIServer{
		size: size, changes: make(chan watch.Event, 1000), acked: map[string]int32{},
	}}
	ctx, cancel := context.WithCancel(tb.Context())
	s.isOver = func() bool { return ctx.Err() != nil }
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	discovery := xds.NewServer(xds.Options{Grace: xds.DefaultGrace})
	sink, err := sink.New(sink.Options{
		Replica: "interceptor-0", Now: time.Now, MaxStreams: 10, MaxHistograms: sink.DefaultMaxHistograms,
		Registerer: registry, Logger: logger,
	})
	s.check(err)
	reporting, err := status.New(status.Options{
		Client: s.server, Source: controlplane.ProxyStates{Server: discovery}, Elect: leadImmediately,
		Replica: "interceptor-0", Registerer: registry, Logger: logger,
	})
	s.check(err)
	loop, err := ingest.New(ingest.Options{
		Sources: ingest.Sources{
			ScaledObjects: listerWatchers(size.scaledObjects, s.server.changes),
			Services:      listerWatchers(size.services, nil), EndpointSlices: listerWatchers(size.slices, nil),
		},
		Resolve: resolve.Options{SharedFleet: "keda"}, Translate: translate.DefaultOptions(),
		Publisher:  controlplane.Publisher{Server: discovery, Sink: sink},
		Observers:  []ingest.Observer{reporting, controlplane.DemandObserver{Sink: sink}},
		Registerer: registry, Logger: logger,
	})
	s.check(err)
	s.running.Go(func() { s.check(loop.Run(ctx)) })
	s.running.Go(func() { s.check(reporting.Run(ctx, loop.Observed())) })
	<-loop.Seeded()
	stop := s.listen(ctx, discovery, reporting)
	s.stop = sync.OnceFunc(func() { cancel(); stop(); s.running.Wait() })
	tb.Cleanup(s.stop)
	for i := range size.proxies {
		s.running.Go(func() { s.runProxy(ctx, proxyAddress(i)) })
	}
	await.Described(tb, "every report, and its way back by the watch", func() bool {
		return s.server.isReported() && len(s.server.changes) == 0
	}, size.String)
	s.kept = []any{discovery, sink, reporting, loop}
	return s
}

// check fails the test if there is an error.
func (s *interceptor) check(err error) {
	if err != nil && !s.isOver() {
		s.tb.Error(err)
	}
}

// listen serves xDS, and returns the function that stops the server.
func (s *interceptor) listen(ctx context.Context, discovery *xds.Server, reporting *status.Reporter) (stop func()) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netspace.Address().String()+":0")
	s.check(err)
	grpcServer := grpcserver.New(grpcserver.Options{})
	discovery.Register(grpcServer)
	reporting.Register(grpcServer)
	s.running.Go(func() {
		if err := grpcServer.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
			s.check(err)
		}
	})
	s.address = listener.Addr().String()
	return func() { discovery.Close(); grpcServer.Stop() }
}

// runProxy runs a proxy that accepts and ACKs everything, and stores nothing.
func (s *interceptor) runProxy(ctx context.Context, from string) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		s.check(err)
		return
	}
	defer func() { _ = conn.Close() }()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		s.check(err)
		return
	}
	// Like Envoy it reads while its requests are being sent. Otherwise both sides could wait forever for the other to
	// read.
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 1000)
	defer close(requests)
	s.running.Go(func() {
		for request := range requests {
			s.check(stream.Send(request))
		}
	})
	for _, typeURL := range []string{resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.ScopedRouteType} {
		requests <- &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			s.check(err)
			return
		}
		requests <- &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}
		if s.onScopes != nil && response.GetTypeUrl() == resourcev3.ScopedRouteType {
			s.onScopes(len(response.GetResources()))
		}
		if response.GetTypeUrl() != resourcev3.ClusterType {
			continue
		}
		subscribe := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resourcev3.EndpointType}
		for _, cluster := range response.GetResources() {
			subscribe.ResourceNamesSubscribe = append(subscribe.ResourceNamesSubscribe, cluster.GetName())
		}
		requests <- subscribe
	}
}

// heapInUse returns the bytes of the heap in use, without garbage. It returns the minimum of several readings, because
// messages in flight and pending work count too.
func heapInUse() int64 {
	const readings = 10
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	least := int64(math.MaxInt64)
	for range readings {
		<-pause.C
		runtime.GC()
		runtime.GC() // the second one frees the contents of sync.Pool
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		least = min(least, int64(stats.HeapAlloc))
	}
	return least
}
