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

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

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
	server := NewServer(nil, nil)
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
	o.peers = NewPeers(slog.New(slog.DiscardHandler), nil, func(d Delta) {
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

func has(d Delta) bool { return d.Objects[key(1)] == digest(1) && d.Proxies[address(1)].Full }

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
	peers, other, state := NewPeers(slog.New(slog.DiscardHandler), nil, func(Delta) {}), endpoints.Pod{Name: "a"}, newState()
	all := Delta{Objects: map[model.Key]string{}}
	missing := map[model.Key]Ack{}
	for i := range 10_000 {
		all.Objects[key(i)], missing[key(i)] = digest(1), Ack{}
	}
	if err := peers.apply(other, state, all); err != nil {
		t.Fatal(err)
	}
	for i := range 104 {
		one := Delta{Proxies: map[netip.Addr]Proxy{address(i): {Fleet: "apps", Full: true, Acks: missing}}}
		err := peers.apply(other, state, one)
		if tooMuch := i == 103; errors.Is(err, errProtocol) != tooMuch {
			t.Fatalf("after %d proxies: %v", i+1, err)
		}
	}
}
