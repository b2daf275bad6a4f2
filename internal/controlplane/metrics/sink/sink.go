package sink

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// DefaultMaxStreams is the default limit of connected proxies.
	DefaultMaxStreams = 2048
	// DefaultMaxExternal is the default limit of connected external proxies that one namespace accepts.
	DefaultMaxExternal = 64
	// DefaultMemberTimeout is the default time that a stream waits until its address belongs to a proxy: a proxy may
	// connect before the watch reports it.
	DefaultMemberTimeout = time.Second
)

// Options are the settings of a Sink. All except MaxStreams, MaxExternal, MaxHistograms, MemberTimeout, Identify,
// ConnContext, Hint and Queued are required.
type Options struct {
	// Replica is the name of this replica in its reports.
	Replica string
	// Now is the clock. Its times are monotonic.
	Now func() time.Time
	// MaxStreams limits the proxies with a stream, one each, and in addition the streams that wait until their address
	// belongs to a proxy; DefaultMaxStreams if it is zero.
	MaxStreams int
	// MaxExternal limits the external proxies with a stream that one namespace accepts; DefaultMaxExternal if it is zero.
	// They count neither as proxies of a fleet nor for another namespace. All together have the limit MaxStreams too.
	MaxExternal int
	// MemberTimeout is how long a stream waits until its address belongs to a proxy; DefaultMemberTimeout if it is
	// zero.
	MemberTimeout time.Duration
	// Identify returns the proxy that a request has proven to be of, zero values if it has proven nothing. The request
	// must have the address of that proxy, too. An error, with a gRPC status, ends the stream. If nil, the address is
	// proof enough. ConnContext is that of the http.Server whose requests Identify receives; nil for none.
	Identify    func(r *http.Request) (fleet model.Fleet, proxy string, err error)
	ConnContext func(ctx context.Context, conn net.Conn) context.Context
	// Hint is added to the error and the log message for a proxy that belongs to no fleet.
	Hint string
	// Queued returns the queued requests at this replica, and a channel that is closed when an object gets its first
	// one; nil for none.
	Queued func() (map[model.Key]holding.Count, <-chan struct{})
	// MaxHistograms limits the backends with a histogram of response times among the metrics; none have one if it is
	// zero.
	MaxHistograms int
	// Registerer registers the metrics of the sink and of backends.
	Registerer prometheus.Registerer
	// Logger logs the start and end of streams.
	Logger *slog.Logger
}

// Sink receives the metrics of proxies. Make it with New. It is safe for concurrent use.
type Sink struct {
	replica       string
	now           func() time.Time
	maxStreams    int
	maxExternal   int
	memberTimeout time.Duration
	identify      func(*http.Request) (model.Fleet, string, error)
	connContext   func(context.Context, net.Conn) context.Context
	hint          string
	logger        *slog.Logger
	metrics       *sinkMetrics
	queued        func() (map[model.Key]holding.Count, <-chan struct{})
	stopping      chan struct{} // closed when Serve ends
	waiting       chan struct{} // contains an element for each stream that waits for its proxy
	reports       reportCache
	rejections    server.PeerLog
	memory        memory

	mu      mutex // guards the fields below
	meter   *metrics.Meter
	members map[netip.Addr][]member
	strict  map[model.Fleet]bool // the fleets whose proxies are not counted without a proof
	updated chan struct{}        // closed and replaced when members change
	arrived chan struct{}        // closed and replaced at each batch
	streams map[member]*session
}

// New returns a Sink without objects and proxies. The error is that of Options.Registerer.
func New(options Options) (*Sink, error) {
	s := &Sink{
		replica: options.Replica, now: options.Now, maxStreams: cmp.Or(options.MaxStreams, DefaultMaxStreams),
		maxExternal: cmp.Or(options.MaxExternal, DefaultMaxExternal),
		memberTimeout: cmp.Or(
			options.MemberTimeout, DefaultMemberTimeout,
		), identify: options.Identify, connContext: options.ConnContext,
		hint: options.Hint, logger: options.Logger, queued: options.Queued,
		meter: metrics.NewMeter(options.Now()), updated: make(chan struct{}), arrived: make(chan struct{}),
		stopping: make(chan struct{}), streams: map[member]*session{},
	}
	if s.identify == nil {
		s.identify = func(*http.Request) (model.Fleet, string, error) { return "", "", nil }
	}
	if s.queued == nil {
		s.queued = func() (map[model.Key]holding.Count, <-chan struct{}) { return nil, nil }
	}
	s.waiting = make(chan struct{}, s.maxStreams)
	var err error
	s.metrics, err = newMetrics(options.Registerer, s, options.MaxHistograms)
	return s, err
}

// SetObjects adds, changes and removes objects; nil removes one. It does not wait for the handling of metrics, and the
// caller must not modify changed afterwards.
func (s *Sink) SetObjects(changed map[model.Key]*metrics.Object) {
	s.mu.Do(func() {
		now := s.now()
		for key, object := range changed {
			if object == nil {
				s.meter.RemoveObject(key)
			} else {
				s.meter.SetObject(now, key, *object)
			}
		}
	})
}

// SetProxies sets the proxies of all fleets. It does not wait for the handling of metrics, and the caller must not
// modify fleets afterwards.
func (s *Sink) SetProxies(fleets map[model.Fleet][]model.Proxy) {
	members, strict := membersOf(fleets), map[model.Fleet]bool{}
	for fleet, proxies := range fleets {
		strict[fleet] = slices.ContainsFunc(proxies, func(proxy model.Proxy) bool { return proxy.NeedsToken })
	}
	s.mu.Do(func() {
		s.meter.SetProxies(s.now(), fleets)
		s.members, s.strict = members, strict
		close(s.updated)
		s.updated = make(chan struct{})
	})
}

// membersOf returns the proxies by their addresses.
func membersOf(fleets map[model.Fleet][]model.Proxy) map[netip.Addr][]member {
	members := map[netip.Addr][]member{}
	for fleet, proxies := range fleets {
		for _, proxy := range proxies {
			for _, address := range proxy.Addresses {
				if m := (member{fleet, proxy.Name}); !slices.Contains(members[address], m) {
					members[address] = append(members[address], m)
				}
			}
		}
	}
	return members
}

// IsKnown reports whether an address is that of a proxy, or is listed by an object with an external key.
func (s *Sink) IsKnown(address netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members[address]) > 0 || len(s.meter.ExternalNamespaces(address)) > 0
}

// Report returns the current report, and a channel that is closed at the next batch.
func (s *Sink) Report() (metrics.Report, <-chan struct{}) {
	queued, _ := s.queuedReport()
	s.mu.Lock()
	defer s.mu.Unlock()
	report := s.meter.Report(s.now(), s.replica)
	report.Queued = queued.Queued
	return report, s.arrived
}

// Changes returns what has changed since the whole report last, and updates last.
func (s *Sink) Changes(last *metrics.Report) metrics.Report {
	queued, _ := s.queuedReport()
	s.mu.Lock()
	defer s.mu.Unlock()
	last.Replica = s.replica
	changes := s.meter.Changes(s.now(), last)
	last.Queued, changes.Queued = queued.Queued, queued.Queued
	return changes
}

// queuedReport returns a Report with only the queued requests, and a channel that is closed when the next one is
// urgent.
func (s *Sink) queuedReport() (metrics.Report, <-chan struct{}) {
	counts, urgent := s.queued()
	report := metrics.Report{Replica: s.replica, Queued: make(map[string]metrics.Queued, len(counts)), QueuedOnly: true}
	for key, count := range counts {
		report.Queued[key.String()] = metrics.Queued{Waiting: count.Waiting, Counted: count.ViaFallback}
	}
	return report, urgent
}

// addressOf returns the address of a peer. The error is a gRPC status.
func addressOf(peer string) (netip.Addr, error) {
	address, err := server.PeerAddress(peer)
	if err != nil {
		return address, status.Errorf(codes.Internal, "invalid peer address %s: %v", peer, err)
	}
	return address, nil
}

// memberOf returns the proxy of a request with an address. It waits up to the member timeout for one. The error is a
// gRPC status.
func (s *Sink) memberOf(r *http.Request, address netip.Addr) (m member, isProven bool, err error) {
	ctx := r.Context()
	// Only the proxies of fleets cause the work of Identify.
	identify := sync.OnceValues(func() (member, error) {
		fleet, proxy, err := s.identify(r)
		return member{fleet, proxy}, err
	})
	members, _, _ := s.membersAt(address)
	if m, isProven, err = selectMember(members, identify); m != (member{}) || err != nil {
		return m, isProven, err
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return member{}, false, s.errFull()
	}
	timeout := time.After(s.memberTimeout)
	for {
		members, updated, takesExternal := s.membersAt(address)
		if m, isProven, err = selectMember(members, identify); m != (member{}) || err != nil {
			return m, isProven, err
		}
		select {
		case <-ctx.Done():
			return member{}, false, status.FromContextError(ctx.Err()).Err()
		case <-updated:
		case <-timeout:
			if len(members) == 0 && takesExternal {
				return member{metrics.ExternalFleet, address.String()}, false, nil
			}
			return member{}, false, s.errNoMember(address, members)
		}
	}
}

// selectMember returns the proxy among those with its address: the one that it has proven to be, or the only one. The
// zero value means that there is none. isProven is true if it has proven it.
func selectMember(members []member, identify func() (member, error)) (m member, isProven bool, err error) {
	if len(members) == 0 {
		return member{}, false, nil
	}
	switch proven, err := identify(); {
	case err != nil:
		return member{}, false, err
	case slices.Contains(members, proven):
		return proven, true, nil
	case proven == member{} && len(members) == 1:
		return members[0], false, nil
	default:
		return member{}, false, nil
	}
}

// membersAt returns the proxies with an address, and a channel that is closed when they may have changed. takesExternal
// is true if an object accepts the address as that of an external proxy, which may report outside of all fleets.
func (s *Sink) membersAt(address netip.Addr) (members []member, updated <-chan struct{}, takesExternal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[address], s.updated, len(s.meter.ExternalNamespaces(address)) > 0
}

// errNoMember returns the status of a stream with an address that belongs to no proxy, or to several.
func (s *Sink) errNoMember(address netip.Addr, members []member) error {
	reason := "no fleet has a proxy with the address " + address.String() +
		", and no HTTPScaledObject with an external key lists it"
	switch len(members) {
	case 0:
	case 1:
		reason = "the address " + address.String() + " belongs to proxy " + members[0].String() +
			", and the client has proven to be another one"
	default:
		var names []string
		for _, m := range members {
			names = append(names, m.String())
		}
		slices.Sort(names)
		reason = "the address " + address.String() + " belongs to several proxies: " + strings.Join(names, ", ")
	}
	if s.hint != "" {
		reason += "; " + s.hint
	}
	return status.Error(codes.PermissionDenied, reason)
}

// errFull returns the status of a stream above the limit.
func (s *Sink) errFull() error {
	return status.Errorf(codes.ResourceExhausted, "the limit of %d metric streams is reached", s.maxStreams)
}
