package peers

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
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
	// maxWatchers limits the replicas that watch this one. Usually only the elected one does.
	maxWatchers = 32
	// heartbeat is how often a replica without changes sends an empty Delta. A stream without a message for
	// livenessTimeout is dead.
	heartbeat       = time.Second
	livenessTimeout = 3 * heartbeat
)

// Server sends the State of this replica to other replicas. It is safe for concurrent use.
type Server struct {
	peerspb.UnimplementedReplicasServer

	isReplica func(context.Context) bool
	demand    DemandSource
	readers   atomic.Int32 // streams of Demand

	mu       sync.Mutex
	state    *State
	watchers map[watcher]struct{}
	admitted map[netip.Addr]struct{}
	closed   chan struct{}
	close    func() // closes closed, once
}

// watcher is a stream to another replica. It contains the changes that were not sent yet, merged into one Delta.
type watcher chan Delta

// DemandSource calls send with reports of the metric sink as JSON until ctx ends or send fails.
type DemandSource func(ctx context.Context, send func(report []byte) error) error

// NewServer returns a Server without objects and proxies. isReplica reports whether the caller has proven that it is a
// replica, in addition to its address; nil requires no proof. demand may be nil.
func NewServer(isReplica func(context.Context) bool, demand DemandSource) *Server {
	closed := make(chan struct{})
	return &Server{
		isReplica: isReplica, demand: demand, state: newState(), watchers: map[watcher]struct{}{},
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	peerspb.RegisterReplicasServer(registrar, s)
}

// Admit sets the replicas that may watch this one: the endpoints in endpointSlices, from any of their addresses. Other
// callers are rejected, because the stream contains the names of all tenants' objects. Open streams continue.
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

// IsAdmitted reports whether a replica with an address may watch this one.
func (s *Server) IsAdmitted(address netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isAdmitted := s.admitted[address]
	return isAdmitted
}

// Apply applies changes of this replica, sends them to all watchers, and returns the effective changes. The caller must
// not modify the result. Apply never waits for a watcher.
func (s *Server) Apply(d Delta) Delta {
	if d.IsEmpty() {
		return d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.state.apply(d)
	if changes.IsEmpty() {
		return changes
	}
	for w := range s.watchers {
		w.add(changes)
	}
	return changes
}

// Read calls visit with the State of this replica. visit must not keep it.
func (s *Server) Read(visit func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	visit(s.state)
}

// Close ends all streams, and rejects later ones. Further calls have no effect.
func (s *Server) Close() { s.close() }

// Watch implements peerspb.ReplicasServer. It serves one stream until it ends.
func (s *Server) Watch(
	_ *peerspb.WatchRequest, stream grpc.ServerStreamingServer[peerspb.Delta],
) error {
	if err := s.checkProof(stream.Context()); err != nil {
		return err
	}
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
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		var unsent Delta
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.closed:
			return status.Error(codes.Unavailable, "the replica is shutting down")
		case unsent = <-w:
		case <-ticker.C:
		}
		if err := stream.Send(codec.encode(unsent)); err != nil {
			return err
		}
	}
}

// Demand implements peerspb.ReplicasServer. It serves one stream until it ends.
func (s *Server) Demand(
	_ *peerspb.DemandRequest, stream grpc.ServerStreamingServer[peerspb.DemandReport],
) error {
	if err := s.checkProof(stream.Context()); err != nil {
		return err
	}
	if from := addressOf(stream.Context()); !s.IsAdmitted(from) {
		return errNotReplica(from)
	}
	if s.demand == nil {
		return status.Error(codes.Unimplemented, "the replica reports no demand")
	}
	if s.readers.Add(1) > maxWatchers {
		s.readers.Add(-1)
		return errTooMany()
	}
	defer s.readers.Add(-1)
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-s.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.demand(ctx, func(report []byte) error {
		return stream.Send(&peerspb.DemandReport{Json: report})
	}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the stream has ended")
}

// checkProof returns the error for a caller that has not proven that it is a replica.
func (s *Server) checkProof(ctx context.Context) error {
	if s.isReplica != nil && !s.isReplica(ctx) {
		return status.Error(codes.Unauthenticated, "the caller has not presented the interceptor's certificate")
	}
	return nil
}

// errNotReplica is the error for an address that belongs to no replica.
func errNotReplica(from netip.Addr) error {
	return status.Errorf(codes.PermissionDenied, "address %s is no endpoint of Service %s", from, ServiceName)
}

// errTooMany is the error for a stream above the limit.
func errTooMany() error {
	return status.Errorf(codes.ResourceExhausted, "the limit of %d watchers is reached", maxWatchers)
}

// join adds a watcher, starting with the whole State.
func (s *Server) join(from netip.Addr) (watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isReplica := s.admitted[from]; !isReplica {
		return nil, errNotReplica(from)
	}
	if len(s.watchers) >= maxWatchers {
		return nil, errTooMany()
	}
	w := make(watcher, 1)
	w.add(s.state.snapshot())
	s.watchers[w] = struct{}{}
	return w, nil
}

// addressOf returns the address of the caller, or an invalid one if it is unknown.
func addressOf(ctx context.Context) netip.Addr {
	caller, isKnown := peer.FromContext(ctx)
	if !isKnown || caller.Addr == nil {
		return netip.Addr{}
	}
	address, _ := server.PeerAddress(caller.Addr.String())
	return address
}

// add merges changes into the unsent Delta. The caller holds the lock of the Server, so there is only one sender.
func (w watcher) add(changes Delta) {
	var unsent Delta
	select {
	case unsent = <-w:
	default:
	}
	w <- unsent.mergedWith(changes)
}
