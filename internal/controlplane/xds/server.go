package xds

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// ErrClosed is the error of Publish on a server that was closed.
var ErrClosed = errors.New("discovery server is closed")

const (
	// DefaultGrace is how long a removed cluster outlives the last route that named it: requests that selected it
	// before the routes changed still find it.
	DefaultGrace = 5 * time.Second
	// DefaultMaxStreams is how many proxies one server accepts.
	DefaultMaxStreams = 2048
	// DefaultMembershipTimeout is how long a stream waits for its address to become known: a proxy may connect before
	// the watch reports its address.
	DefaultMembershipTimeout = time.Second
	// DefaultDrainDelay is how long a proxy that is shutting down accepts new connections: longer than Services and
	// Ingress controllers need to notice the termination of a Pod.
	DefaultDrainDelay = 5 * time.Second

	// receiveLimit is the largest size of a request in bytes. A reconnecting proxy names all its resources, about 100
	// bytes each.
	receiveLimit = 16 << 20
	// streamsPerAddress is how many streams one address may have, so that one proxy cannot use all of them. A proxy has
	// one, and for a moment a second one after its connection was lost.
	streamsPerAddress = 4
	// saltLength suffices to distinguish the streams of one proxy.
	saltLength = 8
)

// Delta is the difference between two snapshots of a fleet.
type Delta struct {
	// Fleet is the name of the fleet.
	Fleet string
	// Changed are the new and changed messages by type URL and resource name.
	Changed map[string]map[string]proto.Message
	// Removed are the names of the removed resources by type URL.
	Removed map[string][]string
}

// Options are the settings of [NewServer].
type Options struct {
	// Grace is how long a removed cluster outlives the last route that named it.
	Grace time.Duration
	// MaxStreams is how many streams are served at a time, and how many more may wait for their address to become
	// known; 0 means DefaultMaxStreams. Others are rejected with ResourceExhausted.
	MaxStreams int
	// MembershipTimeout is how long a stream waits for its address to become known; 0 means DefaultMembershipTimeout.
	MembershipTimeout time.Duration
	// Identify returns the fleet that the proxy of a call has proven to belong to, "" if it has proven nothing. The proxy
	// must have an address of that fleet, too. A stream without a proof receives no private key, see
	// [session.Session.WithholdSecrets]. An error, with a gRPC status, ends the stream. If nil, the address is proof
	// enough.
	Identify func(ctx context.Context) (fleet string, err error)
	// Joining is the memory for proxies that join, with an account for each fleet; nil means the default.
	Joining *grpcserver.Budget
	// Metrics are the metrics of this server and no other one; nil for none.
	Metrics *Metrics
	// Logger logs connections and NACKs; nil for none.
	Logger *slog.Logger
	// Callbacks are called for events on streams; nil for none.
	Callbacks Callbacks
	// MembershipHint is the fix for a proxy that belongs to no fleet. It is part of the status of the stream and of
	// the log line.
	MembershipHint string
	// DrainedListeners are the names of the listeners that are removed from a proxy that is shutting down, DrainDelay
	// after [Server.SetMembers] reported it. Envoy then accepts no new connections, and drains its connections
	// (https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/operations/draining). The delay is for load
	// balancers, which notice the shutdown no earlier than this server. If empty, such a proxy is served like any
	// other. On a new stream, such a proxy does not receive again what was removed: the delay continues, and in delta a
	// listener that the proxy does not report is not sent.
	DrainedListeners []string
	DrainDelay       time.Duration
	// IPv6Listeners are the names of the listeners with an IPv6 address. A stream has them from when
	// [Server.SetMembers] reports an IPv6 address of its proxy, and keeps them: their removal would close connections.
	// Envoy rejects them on a machine without IPv6.
	IPv6Listeners []string
}

// Server is the aggregated discovery service. Create it with [NewServer]. Its methods are safe for concurrent use.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	options    Options
	membership atomic.Pointer[membership]
	assigning  sync.Mutex // held by SetMembers
	changed    chan struct{}
	waiting    chan struct{} // contains an element for each stream whose fleet is not known yet
	closed     chan struct{}
	closing    sync.Once
	rejections server.PeerLog

	mu         sync.Mutex // guards the fields below
	fleets     map[string]*fleet
	streams    map[*stream]struct{}
	addresses  map[netip.Addr]int // streams by address, with those whose fleet is unknown
	lastNumber uint64             // of a stream
}

// NewServer returns a server without members and snapshots: the proxies of a fleet receive no response before Publish
// was called for it.
func NewServer(options Options) *Server {
	options.MaxStreams = cmp.Or(options.MaxStreams, DefaultMaxStreams)
	options.MembershipTimeout = cmp.Or(options.MembershipTimeout, DefaultMembershipTimeout)
	options.Joining = cmp.Or(options.Joining, grpcserver.NewBudget(joining, joiningPerFleet))
	options.Metrics = cmp.Or(options.Metrics, newMetrics())
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.Callbacks = cmp.Or[Callbacks](options.Callbacks, noCallbacks{})
	s := &Server{
		options: options,
		changed: make(chan struct{}, 1),
		waiting: make(chan struct{}, options.MaxStreams),
		closed:  make(chan struct{}),
		fleets:  map[string]*fleet{},
		streams: map[*stream]struct{}{}, addresses: map[netip.Addr]int{},
	}
	s.membership.Store(&membership{superseded: make(chan struct{})})
	options.Metrics.server.Store(s)
	return s
}

// Register adds the service to a server.
func (s *Server) Register(on *grpcserver.Server) {
	// More names than a session accepts have no effect.
	limits := grpcserver.Limits{Message: receiveLimit, Repeated: session.NamesLimit + 1}
	delta, sotw := limits, limits
	// type_url, resource_names_subscribe, _unsubscribe, initial_resource_versions, response_nonce, error_detail.message
	delta.Fields = grpcserver.Fields{2: nil, 3: nil, 4: nil, 5: nil, 6: nil, 7: {2: nil}}
	// version_info, resource_names, type_url, response_nonce, error_detail.message
	sotw.Fields = grpcserver.Fields{1: nil, 3: nil, 4: nil, 5: nil, 6: {2: nil}}
	on.RegisterWithLimits(&discoveryv3.AggregatedDiscoveryService_ServiceDesc, s, map[string]grpcserver.Limits{
		"DeltaAggregatedResources": delta, "StreamAggregatedResources": sotw,
	})
}

// Publish sets the desired resources of a fleet: messages by type URL and resource name. They replace all earlier ones;
// none at all is valid. Served types are clusters, endpoints, listeners, scoped routes with the routes inside, and
// secrets of the v3 API.
//
// Publish marshals and hashes every message, and sends only those whose content changed. It keeps no message.
//
// Publish waits for no proxy. A slow proxy receives the latest resources when it is ready, and never those in between.
// An error changes nothing. It is ErrClosed, or has [session.ErrInconsistent] in its chain if the caller has a bug.
func (s *Server) Publish(fleet string, desired map[string]map[string]proto.Message) error {
	return s.update(fleet, func(before *session.Snapshot) (*session.Snapshot, error) { return before.Replace(desired) })
}

// ApplyDelta is Publish for the difference to what was published before. Its cost depends on the size of the difference
// only.
func (s *Server) ApplyDelta(d Delta) error {
	return s.update(d.Fleet, func(before *session.Snapshot) (*session.Snapshot, error) {
		return before.Apply(d.Changed, d.Removed)
	})
}

// update publishes the next snapshot of a fleet.
func (s *Server) update(name string, successor func(before *session.Snapshot) (*session.Snapshot, error)) error {
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
	next, err := successor(cmp.Or(before.snapshot, new(session.Snapshot)))
	if err != nil || next == before.snapshot {
		return err
	}
	f.rejected.Retain(next)
	f.latest.Store(&publication{snapshot: next, superseded: make(chan struct{})})
	close(before.superseded)
	return nil
}

// Close ends all streams with the status Unavailable, so that proxies reconnect, to another replica if they can. It
// rejects new streams. Closing twice is valid.
func (s *Server) Close() { s.closing.Do(func() { close(s.closed) }) }

// DeltaAggregatedResources serves one incremental stream until it ends. It is called by gRPC.
func (s *Server) DeltaAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), session.ModeDelta, deltaTransport{st})
}

// StreamAggregatedResources serves one state-of-the-world stream until it ends. It is called by gRPC.
func (s *Server) StreamAggregatedResources(
	st discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	return s.serve(st.Context(), session.ModeStateOfTheWorld, sotwTransport{st})
}

// addStream adds a stream of a fleet.
func (s *Server) addStream(mode session.Mode, peer, fleet string) (*stream, error) {
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
	s.lastNumber++
	f := s.fleet(fleet)
	st := &stream{
		number:  s.lastNumber,
		mode:    mode,
		peer:    peer,
		address: addressOf(peer),
		fleet:   f,
		session: session.New(mode, s.options.Grace, rand.Text()[:saltLength], f.rejected.Of(hostOf(peer))),
	}
	st.session.CountUnknownNames(f.unknown)
	s.streams[st] = struct{}{}
	return st, nil
}

// enter counts a stream of a peer, also while its fleet is unknown, until leave is called. The error is a gRPC status.
func (s *Server) enter(peer string) (leave func(), err error) {
	address := addressOf(peer)
	if !address.IsValid() { // Only tests have peers without an address.
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addresses[address] >= streamsPerAddress {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the address %s has %d discovery streams: a proxy needs one", hostOf(peer), streamsPerAddress)
	}
	s.addresses[address]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.addresses[address]--; s.addresses[address] == 0 {
			delete(s.addresses, address)
		}
	}, nil
}

// removeStream removes a stream.
func (s *Server) removeStream(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.mu.Unlock()
	st.mu.Lock()
	st.session.Close()
	st.mu.Unlock()
	s.signal()
}

// signal signals that the state of a stream has changed.
func (s *Server) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// errFull returns the status for a stream over Options.MaxStreams.
func (s *Server) errFull() error {
	return status.Errorf(codes.ResourceExhausted,
		"the limit of %d discovery streams is reached: raise --max-streams", s.options.MaxStreams)
}

// errShuttingDown returns the status with which Close ends streams.
func errShuttingDown() error {
	return status.Error(codes.Unavailable, "the discovery server is shutting down")
}
