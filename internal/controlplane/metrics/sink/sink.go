package sink

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// DefaultMaxStreams is how many proxies one server takes.
	DefaultMaxStreams = 2048
	// DefaultPatience is how long a stream waits for its address to become known: a proxy may connect before the
	// news of it arrives.
	DefaultPatience = time.Second
)

// Options are what a Sink works with. All fields but MaxStreams, Patience and Remedy are required.
type Options struct {
	// Replica is the name of this replica in its reports.
	Replica string
	// Now is the clock, one with monotonic time.
	Now func() time.Time
	// MaxStreams is how many proxies have a stream at a time, one each, and how many streams may wait beside
	// them for their proxy to become known; DefaultMaxStreams if it is zero.
	MaxStreams int
	// Patience is how long a stream waits for its address to become known; DefaultPatience if it is zero.
	Patience time.Duration
	// Remedy is what a proxy that belongs to no fleet, and the log, are told to do about it.
	Remedy string
	// Held are the requests that are held at this replica, and a channel that is closed when an object has one
	// that had none; nil where none ever is.
	Held func() (map[model.Key]metrics.Held, <-chan struct{})
	// Registerer takes the metrics, those of the sink and those of backends.
	Registerer prometheus.Registerer
	// Logger is told of streams.
	Logger *slog.Logger
}

// Sink receives the metrics of proxies. Make it with New; all its methods are safe for concurrent use.
type Sink struct {
	replica    string
	now        func() time.Time
	maxStreams int
	patience   time.Duration
	remedy     string
	logger     *slog.Logger
	metrics    *sinkMetrics
	held       func() (map[model.Key]metrics.Held, <-chan struct{})
	stopping   chan struct{} // closed when Serve is to end
	waiting    chan struct{} // holds an element for each stream whose proxy is not known yet
	lines      lines

	mu      sync.Mutex // guards what follows
	meter   *metrics.Meter
	members map[netip.Addr][]member
	updated chan struct{} // closed when members are others
	arrived chan struct{} // closed when a batch has come
	streams map[member]*session
}

// New returns a Sink that knows of no object and no proxy. An error is about Options.Registerer.
func New(options Options) (*Sink, error) {
	s := &Sink{
		replica: options.Replica, now: options.Now, maxStreams: cmp.Or(options.MaxStreams, DefaultMaxStreams),
		patience: cmp.Or(options.Patience, DefaultPatience), remedy: options.Remedy, logger: options.Logger, held: options.Held,
		meter: metrics.NewMeter(options.Now()), updated: make(chan struct{}), arrived: make(chan struct{}),
		stopping: make(chan struct{}), streams: map[member]*session{},
	}
	if s.held == nil {
		s.held = func() (map[model.Key]metrics.Held, <-chan struct{}) { return nil, nil }
	}
	s.waiting = make(chan struct{}, s.maxStreams)
	var err error
	s.metrics, err = newMetrics(options.Registerer, s)
	return s, err
}

// SetObjects takes in the objects that have changed, nil for one that is gone.
func (s *Sink) SetObjects(changed map[model.Key]*metrics.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, object := range changed {
		if object == nil {
			s.meter.RemoveObject(key)
		} else {
			s.meter.SetObject(now, key, *object)
		}
	}
}

// SetProxies says which proxies each fleet has. Nobody may change fleets afterwards.
func (s *Sink) SetProxies(fleets map[model.Fleet][]model.Proxy) {
	members := membersOf(fleets)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.SetProxies(s.now(), fleets)
	s.members = members
	close(s.updated)
	s.updated = make(chan struct{})
}

// membersOf are the proxies by their addresses.
func membersOf(fleets map[model.Fleet][]model.Proxy) map[netip.Addr][]member {
	members := map[netip.Addr][]member{}
	for fleet, proxies := range fleets {
		for _, proxy := range proxies {
			for _, address := range proxy.Addresses {
				if each := (member{fleet, proxy.Name}); !slices.Contains(members[address], each) {
					members[address] = append(members[address], each)
				}
			}
		}
	}
	return members
}

// Report is what is known now, and a channel that is closed when a proxy has reported something new.
func (s *Sink) Report() (metrics.Report, <-chan struct{}) {
	held, _ := s.heldNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	report := s.meter.Report(s.now(), s.replica)
	report.Held = held.Held
	return report, s.arrived
}

// changes is what is known now and was not in the report last, which becomes the newest one.
func (s *Sink) changes(last *metrics.Report) metrics.Report {
	held, _ := s.heldNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	last.Replica = s.replica
	changes := s.meter.Changes(s.now(), last)
	last.Held, changes.Held = held.Held, held.Held
	return changes
}

// heldNow is a Report of nothing but what is held, and a channel that is closed when it should be told at once.
func (s *Sink) heldNow() (metrics.Report, <-chan struct{}) {
	held, urgent := s.held()
	report := metrics.Report{Replica: s.replica, Held: make(map[string]metrics.Held, len(held)), HeldOnly: true}
	for key, each := range held {
		report.Held[key.String()] = each
	}
	return report, urgent
}

// addressOf is the address of a peer. The error is a status.
func addressOf(peer string) (netip.Addr, error) {
	address, err := server.PeerAddress(peer)
	if err != nil {
		return address, status.Errorf(codes.Internal, "peer %s has no address: %v", peer, err)
	}
	return address, nil
}

// memberOf says whose proxy has an address, and waits for it if need be. The error is a status.
func (s *Sink) memberOf(ctx context.Context, address netip.Addr) (member, error) {
	if found, _, _ := s.membersAt(address); len(found) == 1 {
		return found[0], nil
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return member{}, s.errFull()
	}
	patience := time.After(s.patience)
	for {
		found, updated, takesExternal := s.membersAt(address)
		if len(found) == 1 {
			return found[0], nil
		}
		select {
		case <-ctx.Done():
			return member{}, status.FromContextError(ctx.Err()).Err()
		case <-updated:
		case <-patience:
			if len(found) == 0 && takesExternal {
				return member{metrics.ExternalFleet, address.String()}, nil
			}
			return member{}, s.errStranger(address, found)
		}
	}
}

// membersAt are the proxies with an address, until updated is closed. takesExternal says that proxies of no
// fleet have something to report.
func (s *Sink) membersAt(address netip.Addr) (found []member, updated <-chan struct{}, takesExternal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[address], s.updated, s.meter.HasExternalKeys()
}

// errStranger is the status for a stream whose address is that of no proxy, or of several.
func (s *Sink) errStranger(address netip.Addr, found []member) error {
	reason := "no fleet has a proxy with the address " + address.String()
	if len(found) > 1 {
		var names []string
		for _, each := range found {
			names = append(names, each.String())
		}
		slices.Sort(names)
		reason = "the address " + address.String() + " is that of several proxies: " + strings.Join(names, ", ")
	}
	if s.remedy != "" {
		reason += "; " + s.remedy
	}
	return status.Error(codes.PermissionDenied, reason)
}

// errFull is the status for a stream that there is no room for.
func (s *Sink) errFull() error {
	return status.Errorf(codes.ResourceExhausted, "this server takes %d metric streams and has them all", s.maxStreams)
}

// session is a stream with whose it is.
type session struct {
	address netip.Addr
	member  member
	stream  *metrics.Stream
	end     context.CancelCauseFunc
}

// open begins the stream of a proxy, and ends the one that it had before. It returns nil when there is no
// room for another proxy. By end the stream is told that there is another one.
func (s *Sink) open(address netip.Addr, m member, end context.CancelCauseFunc) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.streams[m]; before != nil {
		before.end(errSuperseded)
	} else if len(s.streams) >= s.maxStreams {
		return nil
	}
	open := &session{address, m, s.meter.Open(s.now(), m.fleet, m.proxy), end}
	s.streams[m] = open
	return open
}

// close is the end of what open began.
func (s *Sink) close(open *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open.stream.Close()
	if s.streams[open.member] == open {
		delete(s.streams, open.member)
	}
}

// apply takes a batch in.
func (s *Sink) apply(open *session, batch metrics.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !open.stream.IsCurrent() {
		return errSuperseded
	}
	if is := s.members[open.address]; len(is) == 1 && is[0] != open.member {
		return fmt.Errorf("%w %s", errMoved, is[0])
	}
	isNew, err := open.stream.Apply(s.now(), batch)
	if err != nil {
		return err
	}
	if !isNew {
		s.metrics.idle.Inc()
	}
	close(s.arrived)
	s.arrived = make(chan struct{})
	return nil
}
