package peers

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

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
	server := NewServer(nil, nil)
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

// TestCallerProvesThatItIsAReplica has a caller with the address of a replica, without and with a proof.
func TestCallerProvesThatItIsAReplica(t *testing.T) {
	from := &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	ctx, cancel := context.WithCancel(peer.NewContext(t.Context(), from))
	cancel() // An accepted stream ends at once.
	stream := slowStream{context: func() context.Context { return ctx }, sent: make(chan *peerspb.Delta)}
	for _, isProven := range []bool{false, true} {
		server := NewServer(func(context.Context) bool { return isProven }, nil)
		server.Admit(endpointsOf(map[string]string{"other": "127.0.0.1:5678"}))
		err := server.Watch(new(peerspb.WatchRequest), stream)
		if isRejected := status.Code(err) == codes.Unauthenticated; isRejected == isProven {
			t.Errorf("with the proof %t the stream ends with %v", isProven, err)
		}
	}
}

// TestPeersProveThemselvesByAnotherConnection has a connection that was opened before there was a certificate: none of
// its streams has a proof.
func TestPeersProveThemselvesByAnotherConnection(t *testing.T) {
	var mu sync.Mutex
	first := ""
	server := NewServer(func(ctx context.Context) bool {
		caller, _ := peer.FromContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first = caller.Addr.String()
		}
		return caller.Addr.String() != first
	}, nil)
	server.Admit(endpointsOf(map[string]string{"other": "127.0.0.1:5678"}))
	server.Apply(one())
	at, _ := listen(t, "127.0.0.1:0", server)
	observe(t, at).next(t, "all of it", has)
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
