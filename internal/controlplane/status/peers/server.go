package peers

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// maxWatchers is how many replicas may watch this one: usually the elected one does.
	maxWatchers = 32
	// heartbeat is how often a replica without news shows that it lives, and livenessTimeout how long another
	// one believes what it was told without a sign of life.
	heartbeat       = time.Second
	livenessTimeout = 3 * heartbeat
)

// Server tells the other replicas about this one. It is safe for concurrent use.
type Server struct {
	peerspb.UnimplementedReplicasServer

	mu       sync.Mutex
	state    *State
	watchers map[watcher]struct{}
	admitted map[netip.Addr]struct{}
	closed   chan struct{}
	close    func() // closes closed, once
}

// watcher is one stream to another replica. It holds what that was not told yet, as one Delta.
type watcher chan Delta

// NewServer returns a Server of a replica that publishes nothing and has no proxies.
func NewServer() *Server {
	closed := make(chan struct{})
	return &Server{
		state: newState(), watchers: map[watcher]struct{}{}, closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	peerspb.RegisterReplicasServer(registrar, s)
}

// Admit has the replicas that are endpoints in endpointSlices watch this one, from any of their
// addresses: others are strangers, whom the names of all tenants' objects are no business of. Streams
// that are open go on.
func (s *Server) Admit(endpointSlices []*discoveryv1.EndpointSlice) {
	admitted := map[netip.Addr]struct{}{}
	for _, slice := range endpointSlices {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					admitted[address.Unmap()] = struct{}{}
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = admitted
}

// Apply takes note of what is new about this replica, tells it to all who watch, and returns what of
// it is news. Nobody may change the result. Apply never waits for a watcher.
func (s *Server) Apply(d Delta) Delta {
	if d.IsEmpty() {
		return d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.state.apply(d)
	if news.IsEmpty() {
		return news
	}
	for w := range s.watchers {
		w.tell(news)
	}
	return news
}

// Read shows the State of this replica to see, which must not keep it.
func (s *Server) Read(see func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	see(s.state)
}

// Close ends all streams, and refuses others. Closing twice is fine.
func (s *Server) Close() { s.close() }

// Watch serves one stream until it ends. It is called by gRPC.
func (s *Server) Watch(
	_ *peerspb.WatchRequest, stream grpc.ServerStreamingServer[peerspb.Delta],
) error {
	w, err := s.join(addressOf(stream.Context()))
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}()
	codec := &encoder{numbers: map[model.Key]uint32{}}
	pulse := time.NewTicker(heartbeat)
	defer pulse.Stop()
	for {
		var unsent Delta
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.closed:
			return status.Error(codes.Unavailable, "the replica is shutting down")
		case unsent = <-w:
		case <-pulse.C:
		}
		if err := stream.Send(codec.encode(unsent)); err != nil {
			return err
		}
	}
}

// join enters a watcher, which is told everything first.
func (s *Server) join(from netip.Addr) (watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isReplica := s.admitted[from]; !isReplica {
		return nil, status.Errorf(codes.PermissionDenied,
			"no endpoint of Service %s has the address %s", ServiceName, from)
	}
	if len(s.watchers) >= maxWatchers {
		return nil, status.Errorf(codes.ResourceExhausted, "%d others watch this replica already", maxWatchers)
	}
	w := make(watcher, 1)
	w.tell(s.state.snapshot())
	s.watchers[w] = struct{}{}
	return w, nil
}

// addressOf is the address of who calls, one that is not valid when it is unknown.
func addressOf(ctx context.Context) netip.Addr {
	caller, isKnown := peer.FromContext(ctx)
	if !isKnown || caller.Addr == nil {
		return netip.Addr{}
	}
	address, _ := server.PeerAddress(caller.Addr.String())
	return address
}

// tell adds news. The caller holds the lock of the Server, so nobody else does meanwhile.
func (w watcher) tell(news Delta) {
	var unsent Delta
	select {
	case unsent = <-w:
	default:
	}
	w <- unsent.with(news)
}
