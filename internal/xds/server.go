package xds

import (
	"crypto/rand"
	"errors"
	"log/slog"
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
	// saltLength is enough to tell the streams of one proxy apart.
	saltLength = 8
)

// Option changes a setting of [NewServer].
type Option func(*Server)

// WithGrace sets how long a removed cluster outlives the last route that named
// it, in place of DefaultGrace. Negative durations count as zero.
func WithGrace(grace time.Duration) Option {
	return func(s *Server) { s.grace = max(0, grace) }
}

// WithMaxStreams sets how many streams are served at a time, in place of
// DefaultMaxStreams; at least 1. Others are refused with ResourceExhausted.
func WithMaxStreams(streams int) Option {
	return func(s *Server) { s.maxStreams = max(1, streams) }
}

// WithObserver has the observer told what happens. Without it nothing is counted.
func WithObserver(observer Observer) Option {
	return func(s *Server) { s.observer = observer }
}

// WithLogger sets the logger for connections and NACKs. Without it nothing is
// logged.
func WithLogger(logger *slog.Logger) Option {
	return func(s *Server) { s.logger = logger }
}

// Server is the aggregated discovery service. Make it with [NewServer]; all its
// methods are safe for concurrent use.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	grace      time.Duration
	maxStreams int
	observer   Observer
	logger     *slog.Logger

	rejected   *rejections
	publishing sync.Mutex // held by Publish: snapshots follow one another
	edition    atomic.Pointer[edition]
	changed    chan struct{}

	mu      sync.Mutex // guards what follows
	streams map[*stream]struct{}
	opened  uint64
	closed  chan struct{}
}

// edition is a snapshot with the means to learn that there is a later one.
type edition struct {
	snapshot   *snapshot // nil in the first edition
	superseded chan struct{}
}

// NewServer returns a server that waits for its first resources: until Publish is
// called, proxies connect and get no answer.
func NewServer(options ...Option) *Server {
	s := &Server{
		grace:      DefaultGrace,
		maxStreams: DefaultMaxStreams,
		observer:   silent{},
		logger:     slog.New(slog.DiscardHandler),
		rejected:   &rejections{},
		changed:    make(chan struct{}, 1),
		streams:    map[*stream]struct{}{},
		closed:     make(chan struct{}),
	}
	for _, option := range options {
		option(s)
	}
	s.edition.Store(&edition{superseded: make(chan struct{})})
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

// Publish makes desired what every proxy is led to: messages by type URL and resource name. It is
// everything, a type or name that is missing is removed; nothing at all is valid. Served types are
// clusters, endpoints, listeners and scoped routes, with the routes inside, of the v3 API.
//
// Every message is marshalled and hashed, and counts as changed only if its content differs.
// Nothing of the messages is kept.
//
// Publish doesn't wait for any proxy. A proxy that is slow is led to the latest state when it is
// ready, and never sees those in between. An error leaves everything as it was; it is ErrClosed, or
// has ErrInconsistent in its chain when the caller has a bug.
func (s *Server) Publish(desired map[string]map[string]proto.Message) error {
	return s.follow(func(before *snapshot) (*snapshot, error) { return before.replace(desired) })
}

// ApplyDelta is Publish of what differs from what was published before as d says. It costs what d
// holds, whatever the rest.
func (s *Server) ApplyDelta(d Delta) error {
	return s.follow(func(before *snapshot) (*snapshot, error) { return before.apply(d) })
}

// follow makes the next snapshot of the one before, and the one that proxies are led to.
func (s *Server) follow(successor func(before *snapshot) (*snapshot, error)) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	select {
	case <-s.closed:
		return ErrClosed
	default:
	}
	before := s.current()
	next, err := successor(before.snapshot)
	if err != nil || before.snapshot != nil && next.changes == before.snapshot.changes {
		return err
	}
	s.rejected.keep(next)
	s.edition.Store(&edition{snapshot: next, superseded: make(chan struct{})})
	close(before.superseded)
	return nil
}

// Close ends all streams with the status Unavailable, upon which proxies connect
// again, elsewhere if they can. New streams are refused. Closing twice is fine.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
}

// DeltaAggregatedResources serves one incremental stream until it ends. It is
// called by gRPC.
func (s *Server) DeltaAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), deltaTransport{st})
}

// StreamAggregatedResources serves one state-of-the-world stream until it ends.
// It is called by gRPC.
func (s *Server) StreamAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), wholeTransport{st})
}

// current is the latest edition.
func (s *Server) current() *edition { return s.edition.Load() }

// open enters a stream.
func (s *Server) open(mode Mode, peer string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, errShuttingDown()
	default:
	}
	if len(s.streams) >= s.maxStreams {
		return nil, status.Errorf(codes.ResourceExhausted,
			"this server takes %d discovery streams and has them all", s.maxStreams)
	}
	s.opened++
	st := &stream{
		number:  s.opened,
		peer:    peer,
		session: newSession(mode, s.grace, rand.Text()[:saltLength], s.rejected),
	}
	s.streams[st] = struct{}{}
	return st, nil
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

// errShuttingDown is the status with which Close ends streams.
func errShuttingDown() error {
	return status.Error(codes.Unavailable, "the discovery server is shutting down")
}
