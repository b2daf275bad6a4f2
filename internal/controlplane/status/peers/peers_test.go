package peers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

func TestMain(m *testing.M) { leak.Main(m) }

// one returns the Delta of a replica with one object that one proxy has ACKed.
func one() Delta {
	return Delta{
		Objects: map[model.Key]string{key(1): digest(1)},
		Proxies: map[netip.Addr]Proxy{address(1): {Fleet: "apps", Full: true}},
	}
}

// newLocalServer returns a Server that admits callers on this host.
func newLocalServer() *Server {
	server := NewServer()
	server.Admit(endpointsOf(map[string]string{"other": "127.0.0.1:5678"}))
	return server
}

// listen serves a service of replicas until the test, or the returned function, ends it.
func listen(t *testing.T, at string, service peerspb.ReplicasServer) (address string, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	peerspb.RegisterReplicasServer(server, service)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = sync.OnceFunc(func() {
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// listenInMemory serves a service of replicas in a bubble of synctest, and returns the options of connections to it.
func listenInMemory(t *testing.T, service peerspb.ReplicasServer) []grpc.DialOption {
	t.Helper()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	peerspb.RegisterReplicasServer(server, service)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})}
}

// observer records the changes of Peers.
type observer struct {
	peers *Peers
	news  chan Delta
}

// observe runs Peers that watch the replicas at addresses until the test ends.
func observe(t *testing.T, addresses ...string) *observer {
	t.Helper()
	return observeSlowly(t, func() {}, nil, addresses...)
}

// observeSlowly is observe where all news wait for wait first, over connections with further options.
func observeSlowly(t *testing.T, wait func(), over []grpc.DialOption, addresses ...string) *observer {
	t.Helper()
	o := &observer{news: make(chan Delta, 1000)}
	o.peers = NewPeers(slog.New(slog.DiscardHandler), func(d Delta) {
		wait()
		o.news <- d
	})
	o.peers.dialOptions = over
	var others []endpoints.Pod
	for _, each := range addresses {
		others = append(others, endpoints.Pod{Name: each, Address: each})
	}
	o.peers.Follow(others)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.peers.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if o.peers.Unreachable() != 0 || o.count() != 0 {
			t.Errorf("after the end %d replicas are known, and %d are unreachable", o.count(), o.peers.Unreachable())
		}
	})
	return o
}

// count returns the number of reachable replicas.
func (o *observer) count() (count int) {
	o.peers.Read(func(states []*State) { count = len(states) })
	return count
}

// next waits for news that fit.
func (o *observer) next(t *testing.T, what string, fits func(Delta) bool) {
	t.Helper()
	for isNext := false; !isNext; {
		isNext = fits(await.Receive(t, what, o.news))
	}
}

func has(d Delta) bool  { return d.Objects[key(1)] == digest(1) && d.Proxies[address(1)].Full }
func gone(d Delta) bool { proxy := d.Proxies[address(1)]; return proxy.Gone && proxy.Fleet == "apps" }

// TestStoppedReplicaIsForgotten stops a replica, and starts it again.
func TestStoppedReplicaIsForgotten(t *testing.T) {
	server := newLocalServer()
	server.Apply(one())
	at, stop := listen(t, netip.AddrPortFrom(loopback.Address(), 5678).String(), server)
	o := observe(t, at)
	o.next(t, "all of it", has)
	server.Apply(Delta{Objects: map[model.Key]string{key(2): digest(2)}})
	o.next(t, "another object", func(d Delta) bool { return d.Objects[key(2)] == digest(2) && len(d.Objects) == 1 })
	stop()
	o.next(t, "the end", gone)
	if o.count() != 0 || o.peers.Unreachable() != 1 {
		t.Errorf("%d replicas are reachable, %d are unreachable", o.count(), o.peers.Unreachable())
	}
	listen(t, at, server)
	o.next(t, "all of it again", has)
	if o.count() != 1 || o.peers.Unreachable() != 0 {
		t.Errorf("%d replicas are reachable, %d are unreachable", o.count(), o.peers.Unreachable())
	}
	server.Close()
	o.next(t, "an orderly end", gone)
}

// TestRemovedReplicaIsForgotten removes a replica from the Service.
func TestRemovedReplicaIsForgotten(t *testing.T) {
	server := newLocalServer()
	server.Apply(one())
	at, _ := listen(t, "127.0.0.1:0", server)
	o := observe(t, at)
	o.next(t, "all of it", has)
	o.peers.Follow(nil)
	o.next(t, "the end", gone)
	if o.count() != 0 || o.peers.Unreachable() != 0 {
		t.Errorf("%d replicas are reachable, %d are unreachable", o.count(), o.peers.Unreachable())
	}
}

// TestReplicaThatIsBackAtOnceIsWatchedOnce checks that the changes of a new stream wait until those of the stream
// before are delivered. The clock is synctest's.
func TestReplicaThatIsBackAtOnceIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ended := make(chan struct{}, 10), make(chan struct{}, 10)
		snapshot := func() *peerspb.Delta { return (&encoder{numbers: map[model.Key]uint32{}}).encode(one()) }
		over := listenInMemory(t, fakeReplica{tell: func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
			began <- struct{}{}
			defer func() { ended <- struct{}{} }()
			if err := stream.Send(snapshot()); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		}})
		var count atomic.Int32
		notified, release := make(chan struct{}), make(chan struct{})
		o := observeSlowly(t, func() {
			if count.Add(1) == 1 {
				close(notified)
				<-release
			}
		}, over, "other")
		<-began
		<-notified
		o.peers.Follow(nil)
		<-ended
		o.peers.Follow([]endpoints.Pod{{Name: "other", Address: "other"}})
		time.Sleep(time.Minute)
		if len(began) > 0 {
			t.Error("the replica is watched twice")
		}
		close(release)
		o.next(t, "all of it", has)
		o.next(t, "the end", gone)
		o.next(t, "all of it again", has)
		if o.count() != 1 || len(o.news) != 0 {
			t.Errorf("%d replicas are reachable, after %d other changes", o.count(), len(o.news))
		}
	})
}

// TestBackOffWhenStreamsEnd has a replica that ends each stream after the whole State. The clock is synctest's.
func TestBackOffWhenStreamsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := make(chan time.Time, 100)
		over := listenInMemory(t, fakeReplica{tell: func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
			began <- time.Now()
			return stream.Send((&encoder{numbers: map[model.Key]uint32{}}).encode(one()))
		}})
		observeSlowly(t, func() {}, over, "other")
		first := <-began
		for range 3 {
			<-began
		}
		want := 15 * retryFirst // 1 + 2 + 4 + 8
		if took := (<-began).Sub(first); took != want {
			t.Errorf("5 streams in %v, want pauses of %v", took, want)
		}
	})
}

// fakeReplica is a replica that sends what a test sets.
type fakeReplica struct {
	peerspb.UnimplementedReplicasServer

	tell func(grpc.ServerStreamingServer[peerspb.Delta]) error
}

// Watch is replicaspb.ReplicasServer's.
func (s fakeReplica) Watch(
	_ *peerspb.WatchRequest, stream grpc.ServerStreamingServer[peerspb.Delta],
) error {
	return s.tell(stream)
}

// TestInvalidStreams has a replica that violates the protocol, sends too much, or sends nothing any more. Each time
// Peers opens a new stream.
func TestInvalidStreams(t *testing.T) {
	t.Parallel()
	snapshot := func() *peerspb.Delta { return (&encoder{numbers: map[model.Key]uint32{}}).encode(one()) }
	for name, test := range map[string]struct {
		tell func(grpc.ServerStreamingServer[peerspb.Delta]) error
	}{
		"nonsense": {func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
			return stream.Send(&peerspb.Delta{Sequence: 7})
		}},
		"a message that is too large": {func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
			return stream.Send(&peerspb.Delta{Sequence: 2, Proxies: []*peerspb.Proxy{{Fleet: strings.Repeat("x", maxMessage)}}})
		}},
		"silence": {func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
			<-stream.Context().Done()
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, _ := listen(t, "127.0.0.1:0", fakeReplica{tell: func(stream grpc.ServerStreamingServer[peerspb.Delta]) error {
				if err := stream.Send(snapshot()); err != nil {
					return err
				}
				return test.tell(stream)
			}})
			o := observe(t, at)
			o.next(t, "all of it", has)
			o.next(t, "doubt", gone)
			o.next(t, "all of it again", has)
		})
	}
}

// TestStateLimit has a replica with more and more proxies that have ACKed no object.
func TestStateLimit(t *testing.T) {
	peers, other, state := NewPeers(slog.New(slog.DiscardHandler), func(Delta) {}), endpoints.Pod{Name: "a"}, newState()
	all := Delta{Objects: map[model.Key]string{}}
	missing := map[model.Key]Answer{}
	for i := range 10_000 {
		all.Objects[key(i)], missing[key(i)] = digest(1), Answer{}
	}
	if err := peers.apply(other, state, all); err != nil {
		t.Fatal(err)
	}
	for i := range 104 {
		one := Delta{Proxies: map[netip.Addr]Proxy{address(i): {Fleet: "apps", Full: true, Answers: missing}}}
		err := peers.apply(other, state, one)
		if tooMuch := i == 103; errors.Is(err, errProtocol) != tooMuch {
			t.Fatalf("after %d proxies: %v", i+1, err)
		}
	}
}

// TestWatcherLimit opens one stream more than the limit.
func TestWatcherLimit(t *testing.T) {
	server, local := newLocalServer(), netip.MustParseAddr("127.0.0.1")
	for range maxWatchers {
		if _, err := server.join(local); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.join(local); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("join = %v, want ResourceExhausted", err)
	}
}

// TestUnknownCallerIsRejected connects before and after Admit.
func TestUnknownCallerIsRejected(t *testing.T) {
	server := NewServer()
	server.Apply(one())
	at, _ := listen(t, "127.0.0.1:0", server)
	o := observe(t, at)
	if _, err := server.join(netip.MustParseAddr("127.0.0.1")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("join = %v, want PermissionDenied", err)
	}
	server.Admit(endpointsOf(map[string]string{"self": "127.0.0.1:5678"}))
	o.next(t, "all of it", has)
}

// slowStream is a stream with a reader that accepts one message at a time.
type slowStream struct {
	grpc.ServerStreamingServer[peerspb.Delta]

	context func() context.Context
	sent    chan *peerspb.Delta
}

func (s slowStream) Context() context.Context { return s.context() }

func (s slowStream) Send(message *peerspb.Delta) error {
	select {
	case s.sent <- message:
		return nil
	case <-s.context().Done():
		return s.context().Err()
	}
}

// TestSlowReaderBlocksNoOther checks that a slow reader gets all missed changes in one message. Without changes there
// is a heartbeat each second. The clock is synctest's.
func TestSlowReaderBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
		ctx, cancel := context.WithCancel(peer.NewContext(t.Context(), from))
		server, stream := newLocalServer(), slowStream{
			context: func() context.Context { return ctx }, sent: make(chan *peerspb.Delta),
		}
		done := make(chan error)
		go func() { done <- server.Watch(new(peerspb.WatchRequest), stream) }()
		if first := <-stream.sent; first.GetSequence() != 1 || len(first.GetObjects()) != 0 {
			t.Errorf("the first message is %v", first)
		}
		server.Apply(Delta{Objects: map[model.Key]string{key(0): digest(1)}})
		synctest.Wait() // It is on its way.
		for i := range 1000 {
			server.Apply(Delta{Objects: map[model.Key]string{key(i % 10): digest(i)}})
		}
		if second := <-stream.sent; len(second.GetObjects()) != 1 {
			t.Errorf("the second message is %v", second)
		}
		if third := <-stream.sent; len(third.GetObjects()) != 10 {
			t.Errorf("the third message has %d objects, want the 10 that changed", len(third.GetObjects()))
		}
		began := time.Now()
		if sign := <-stream.sent; time.Since(began) > heartbeat || len(sign.GetObjects()) != 0 {
			t.Errorf("after %v there is %v", time.Since(began), sign)
		}
		cancel()
		if err := <-done; status.Code(err) != codes.Canceled {
			t.Errorf("Watch = %v", err)
		}
	})
}

// endpointsOf returns the EndpointSlices of replicas at addresses, by name.
func endpointsOf(replicas map[string]string) []*discoveryv1.EndpointSlice {
	var slices []*discoveryv1.EndpointSlice
	for name, address := range replicas {
		at := netip.MustParseAddrPort(address)
		port, portName := int32(at.Port()), PortName
		slices = append(slices, &discoveryv1.EndpointSlice{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{at.Addr().String()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name},
			}},
		})
	}
	return slices
}

func TestOthers(t *testing.T) {
	slices := endpointsOf(map[string]string{
		"interceptor-0": "10.0.0.1:5678", "interceptor-1": "10.0.0.2:5678", "interceptor-2": "10.0.0.3:5679",
	})
	slices = append(slices, endpointsOf(map[string]string{"interceptor-1": "[fd00::2]:5678"})...)
	metrics := "metrics"
	strange := endpointsOf(map[string]string{"interceptor-7": "10.0.0.7:2223"})
	strange[0].Ports[0].Name = &metrics
	got := Others(append(slices, strange...), "interceptor-0")
	want := []endpoints.Pod{
		{Name: "interceptor-1", Address: "10.0.0.2:5678"}, {Name: "interceptor-2", Address: "10.0.0.3:5679"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}
