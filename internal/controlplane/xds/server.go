package xds

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// ErrClosed is the error of Publish on a server that was closed.
var ErrClosed = errors.New("discovery server is closed")

const (
	// DefaultGrace is how long a removed cluster outlives the last route that named
	// it: requests that chose it before the routes changed still find it.
	DefaultGrace = 5 * time.Second
	// DefaultMaxStreams is how many proxies one server takes.
	DefaultMaxStreams = 2048
	// DefaultPatience is how long a stream waits for its address to become known: a proxy may connect before
	// the news of it arrives.
	DefaultPatience = time.Second
	// DefaultLeaveDelay is how long a proxy that is about to go takes new connections yet: longer than
	// Services and Ingress controllers need to learn of a Pod's end.
	DefaultLeaveDelay = 5 * time.Second

	// receiveLimit bounds one request in bytes. A reconnecting proxy names all that
	// it has, about 100 bytes each.
	receiveLimit = 16 << 20
	// keepaliveFloor is the shortest ping interval that clients may use. It must
	// not exceed what bootstraps ask for, 30 s, with room for shorter settings.
	keepaliveFloor = 5 * time.Second
	// pingInterval and pingTimeout find half-open connections.
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
	// streamsPerConnection is generous: a proxy opens one.
	streamsPerConnection = 100
	// streamsPerAddress is how many streams one address may have, so that no proxy takes those of all. A
	// proxy has one, and for a moment a second one after its connection was lost.
	streamsPerAddress = 16
	// saltLength is enough to tell the streams of one proxy apart.
	saltLength = 8
)

// Options are the settings of [NewServer].
type Options struct {
	// Grace is how long a removed cluster outlives the last route that named it.
	Grace time.Duration
	// MaxStreams is how many streams are served at a time, and how many may wait beside them for their
	// fleet to become known; 0 stands for DefaultMaxStreams. Others are refused with ResourceExhausted.
	MaxStreams int
	// Patience is how long a stream waits for its address to become known; 0 stands for DefaultPatience.
	Patience time.Duration
	// Metrics count what happens on this server and no other one; nil for nobody who reads them.
	Metrics *Metrics
	// Logger is for connections and NACKs; nil for none.
	Logger *slog.Logger
	// Follower is told of streams; nil for none.
	Follower Follower
	// Remedy is what a proxy that belongs to no fleet, and the log, are told to do about it.
	Remedy string
	// LeftListeners are the names of the listeners that a proxy loses which is about to go, LeaveDelay after
	// [Server.SetMembers] has said so. Envoy then takes no new connection, and ends the ones that it has in
	// an orderly way (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/operations/draining).
	// The delay is for load balancers, which learn of it no sooner than this server. Without any a proxy that
	// goes is served like any other.
	LeftListeners []string
	LeaveDelay    time.Duration
}

// Server is the aggregated discovery service. Make it with [NewServer]; all its
// methods are safe for concurrent use.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	options    Options
	membership atomic.Pointer[membership]
	changed    chan struct{}
	joining    chan struct{} // holds an element for each proxy that joins
	waiting    chan struct{} // holds an element for each stream whose fleet is not known yet
	closed     chan struct{}
	closing    sync.Once

	mu      sync.Mutex // guards what follows
	fleets  map[string]*fleet
	streams map[*stream]struct{}
	opened  uint64
}

// NewServer returns a server that knows no proxy and has nothing to serve: the proxies of a fleet
// get no answer until Publish was called for it.
func NewServer(options Options) *Server {
	options.MaxStreams = cmp.Or(options.MaxStreams, DefaultMaxStreams)
	options.Patience = cmp.Or(options.Patience, DefaultPatience)
	options.Metrics = cmp.Or(options.Metrics, newMetrics())
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.Follower = cmp.Or[Follower](options.Follower, nobody{})
	s := &Server{
		options: options,
		changed: make(chan struct{}, 1),
		joining: make(chan struct{}, joinsAtOnce),
		waiting: make(chan struct{}, options.MaxStreams),
		closed:  make(chan struct{}),
		fleets:  map[string]*fleet{},
		streams: map[*stream]struct{}{},
	}
	s.membership.Store(&membership{superseded: make(chan struct{})})
	options.Metrics.server.Store(s)
	return s
}

// GRPCOptions are the settings that a gRPC server of this service needs: message
// limits, streams per connection, and keepalive in both directions. Pings of
// clients are allowed every 5 s, with and without an open stream.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(receiveLimit),
		grpc.MaxConcurrentStreams(streamsPerConnection),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: keepaliveFloor, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
	}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(registrar, s)
}

// Publish makes desired what every proxy of a fleet is led to: messages by type URL and resource
// name. It is everything, a type or name that is missing is removed; nothing at all is valid. Served
// types are clusters, endpoints, listeners, scoped routes, with the routes inside, and secrets of the v3 API.
//
// Every message is marshalled and hashed, and counts as changed only if its content differs.
// Nothing of the messages is kept.
//
// Publish doesn't wait for any proxy. A proxy that is slow is led to the latest state when it is
// ready, and never sees those in between. An error leaves everything as it was; it is ErrClosed, or
// has ErrInconsistent in its chain when the caller has a bug.
func (s *Server) Publish(fleet string, desired map[string]map[string]proto.Message) error {
	return s.follow(fleet, func(before *snapshot) (*snapshot, error) { return before.replace(desired) })
}

// ApplyDelta is Publish of what differs from what was published before as d says. It costs what d
// holds, whatever the rest, and is the affair of d.Fleet alone.
func (s *Server) ApplyDelta(d Delta) error {
	return s.follow(d.Fleet, func(before *snapshot) (*snapshot, error) { return before.apply(d) })
}

// follow makes the next snapshot of a fleet, and the one that its proxies are led to.
func (s *Server) follow(name string, successor func(before *snapshot) (*snapshot, error)) error {
	select {
	case <-s.closed:
		return ErrClosed
	default:
	}
	s.mu.Lock()
	f := s.fleet(name)
	s.mu.Unlock()
	f.publishing.Lock()
	defer f.publishing.Unlock()
	before := f.current()
	next, err := successor(cmp.Or(before.snapshot, new(snapshot)))
	if err != nil || before.snapshot != nil && next.resources == before.snapshot.resources {
		return err
	}
	f.rejected.keep(next)
	f.edition.Store(&edition{snapshot: next, superseded: make(chan struct{})})
	close(before.superseded)
	return nil
}

// Close ends all streams with the status Unavailable, upon which proxies connect
// again, elsewhere if they can. New streams are refused. Closing twice is fine.
func (s *Server) Close() { s.closing.Do(func() { close(s.closed) }) }

// DeltaAggregatedResources serves one incremental stream until it ends. It is
// called by gRPC.
func (s *Server) DeltaAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), ModeDelta, deltaTransport{st})
}

// StreamAggregatedResources serves one state-of-the-world stream until it ends.
// It is called by gRPC.
func (s *Server) StreamAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), ModeStateOfTheWorld, wholeTransport{st})
}

// open enters a stream of a fleet.
func (s *Server) open(mode Mode, peer, fleet string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, errShuttingDown()
	default:
	}
	if len(s.streams) >= s.options.MaxStreams {
		return nil, s.errFull()
	}
	address := addressOf(peer)
	if address.IsValid() && s.streamsOf(address) >= streamsPerAddress {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the address %s has %d discovery streams, and no proxy needs more than one", hostOf(peer), streamsPerAddress)
	}
	s.opened++
	f := s.fleet(fleet)
	st := &stream{
		number:  s.opened,
		peer:    peer,
		address: address,
		fleet:   f,
		session: newSession(mode, s.options.Grace, rand.Text()[:saltLength], f.rejected),
	}
	s.streams[st] = struct{}{}
	return st, nil
}

// streamsOf counts the streams of an address. The caller holds the lock.
func (s *Server) streamsOf(address netip.Addr) int {
	count := 0
	for st := range s.streams {
		if st.address == address {
			count++
		}
	}
	return count
}

// leave takes a stream out.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	s.signal()
}

// signal says that the state of a stream has changed.
func (s *Server) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// errFull is the status of a stream that there is no room for.
func (s *Server) errFull() error {
	return status.Errorf(codes.ResourceExhausted,
		"this server takes %d discovery streams and has them all", s.options.MaxStreams)
}

// errShuttingDown is the status with which Close ends streams.
func errShuttingDown() error {
	return status.Error(codes.Unavailable, "the discovery server is shutting down")
}
