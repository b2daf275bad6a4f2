// Package extauthz answers the calls by which proxies ask whether a request may go on: Envoy's external
// authorization service. It is a thin shell around package hold: it waits.
//
// A call ends in one of these ways:
//
//   - The proxy has confirmed an endpoint: the request goes on, and its answer says that it has waited.
//   - It is answered at once, or at its deadline: 503 with Retry-After and the reason, or 200 for a probe.
//   - At its deadline the request goes to another Service, where the object names one.
//   - The client has gone: Envoy ends the call, and the place is free.
//   - The proxy's configuration comes from another replica by now, or this one stops: status Unavailable, upon
//     which Envoy calls again, there.
package extauthz

import (
	"context"
	"net/netip"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// streamsPerConnection is how many calls a connection of a proxy may have: more than may wait.
	streamsPerConnection = 4096
	// streamPatience is how long a call waits for its proxy's discovery stream: after a restart
	// the call may come first, and when a proxy has gone to another replica its call has to follow.
	streamPatience = 2 * time.Second
)

// Options are what a Server works with. All are required.
type Options struct {
	// Limits are how many requests may wait.
	Limits holding.Limits
	// Notify is told what the owner of an app should hear of. It is called with a lock held, and returns at once.
	Notify func(app model.Key, is holding.Occasion)
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
}

// Stream is the discovery stream of a proxy.
type Stream interface {
	// Number rises from stream to stream.
	Number() uint64
	// Fleet is the proxy's fleet.
	Fleet() string
	// Serves says that the proxy has confirmed endpoints of a cluster of which one takes requests.
	Serves(cluster string) bool
}

// Server is the service. Make it with New; all its methods are safe for concurrent use.
type Server struct {
	authv3.UnimplementedAuthorizationServer

	metrics *metrics
	notify  func(model.Key, holding.Occasion)
	closed  chan struct{}
	known   chan struct{} // closed when the apps are known

	mu      sync.Mutex // guards what follows
	room    *holding.Room
	streams map[netip.Addr][]Stream // of a proxy, in the order of their numbers
	opened  chan struct{}           // closed when a stream is there that was not
	waiters map[holding.Ticket]chan outcome
	paces   map[netip.Addr]*proxyPace // of those that have not rested
	visits  map[spot]*visit
	changed chan struct{} // closed when an app has a request that waits and had none
}

// outcome is what a call that waited came to.
type outcome struct {
	goesOn  bool
	isLost  bool // the proxy is no longer this replica's
	verdict holding.Verdict
	page    page.Page // with the verdict hold.Page
}

// proxyPace is the pace of a proxy. due is when more may go on, nil while that is being looked at.
type proxyPace struct {
	holding.Pace

	due *time.Timer
}

// spot is where requests of one proxy for one cluster wait.
type spot struct {
	proxy   netip.Addr
	cluster string
}

// New returns a Server that knows neither apps nor proxies. An error is about Options.Registerer.
func New(options Options) (*Server, error) {
	s := &Server{
		notify: options.Notify,
		closed: make(chan struct{}), known: make(chan struct{}),
		room: holding.NewRoom(options.Limits), streams: map[netip.Addr][]Stream{}, opened: make(chan struct{}),
		waiters: map[holding.Ticket]chan outcome{}, paces: map[netip.Addr]*proxyPace{}, visits: map[spot]*visit{},
		changed: make(chan struct{}),
	}
	var err error
	s.metrics, err = newMetrics(options.Registerer, s)
	return s, err
}

// GRPCOption lets a connection have as many calls as may wait.
func GRPCOption() grpc.ServerOption { return grpc.MaxConcurrentStreams(streamsPerConnection) }

// Register adds the service to a gRPC server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	authv3.RegisterAuthorizationServer(registrar, s)
}

// Close ends all calls, and each that comes later: proxies call again, elsewhere. Closing twice is fine.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return
	default:
	}
	close(s.closed)
	for _, pace := range s.paces {
		pace.due.Stop()
	}
	for _, each := range s.visits {
		each.end.Stop()
	}
}

// SetApps takes in the apps that have changed, nil for one that is gone. Calls wait for the first time.
func (s *Server) SetApps(changed map[model.Key]*holding.App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, app := range changed {
		var vain map[holding.Ticket]holding.Verdict
		if app == nil {
			vain = s.room.RemoveApp(key)
		} else {
			vain = s.room.SetApp(key, *app)
		}
		for ticket, verdict := range vain {
			s.tell(ticket, outcome{verdict: verdict})
		}
	}
	select {
	case <-s.known:
	default:
		close(s.known)
	}
}

// Counts are how many requests of each app wait at this replica, and a channel that is closed when an
// app has one that had none.
func (s *Server) Counts() (map[model.Key]holding.Count, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room.Counts(), s.changed
}

// Check answers one call. It is called by gRPC.
func (s *Server) Check(ctx context.Context, request *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	call, err := callOf(ctx, request)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	stream, err := s.streamOf(ctx, call.Proxy)
	if err != nil {
		return nil, err
	}
	call.Fleet = model.Fleet(stream.Fleet())
	ticket, waiter, app, is := s.enter(call, stream)
	if is != nil {
		s.metrics.count(*is, 0)
		return answer(*is, false), nil
	}
	defer s.leave(ticket)
	patience := time.NewTimer(patienceOf(app, call))
	defer patience.Stop()
	is = &outcome{}
	select {
	case *is = <-waiter:
	case <-patience.C:
		s.expire(call.Cluster, app.FailsOver)
		return expired(app.FailsOver)
	case <-ctx.Done():
		s.metrics.cancel()
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-s.closed:
		return nil, errStopping()
	}
	if is.isLost {
		return nil, errElsewhere()
	}
	s.metrics.count(*is, time.Since(began))
	return answer(*is, true), nil
}

// patienceOf is how long the request of a call waits.
func patienceOf(app holding.App, call holding.Call) time.Duration {
	if call.IsCaught {
		return min(app.Patience, app.CaughtPatience)
	}
	return app.Patience
}

// enter lets a call in, or returns its outcome.
func (s *Server) enter(
	call holding.Call, stream Stream,
) (ticket holding.Ticket, waiter chan outcome, app holding.App, is *outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wasWaitedFor := s.room.Waits(call.Proxy, call.Cluster)
	before := s.room.Apps()
	ticket, app, verdict := s.room.Enter(call)
	switch {
	case verdict == holding.Page && stream.Serves(call.Cluster):
		return 0, nil, holding.App{}, &outcome{goesOn: true}
	case verdict == holding.Page:
		return 0, nil, holding.App{}, &outcome{verdict: s.visit(call, *app.Page), page: *app.Page}
	case verdict == holding.Full:
		s.tellOwner(call.Cluster, holding.TurnedAway)
		return 0, nil, holding.App{}, &outcome{verdict: verdict}
	case verdict != holding.Wait:
		return 0, nil, holding.App{}, &outcome{verdict: verdict}
	case !wasWaitedFor && stream.Serves(call.Cluster): // It has entered: what is confirmed from now on finds it.
		s.room.Leave(ticket)
		return 0, nil, holding.App{}, &outcome{goesOn: true}
	}
	waiter = make(chan outcome, 1)
	s.waiters[ticket] = waiter
	s.urge(before, call.Cluster)
	return ticket, waiter, app, nil
}

// urge has it told at once if more apps have a request that waits than before: that of a cluster. The caller holds the lock.
func (s *Server) urge(before int, cluster string) {
	if s.room.Apps() > before {
		close(s.changed)
		s.changed = make(chan struct{})
		s.tellOwner(cluster, holding.ColdStart)
	}
}

// expire notes that a request for a cluster has waited for its whole time.
func (s *Server) expire(cluster string, failsOver bool) {
	is := holding.TooLate
	if failsOver {
		is = holding.FailedOver
	}
	s.metrics.expire(failsOver)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellOwner(cluster, is)
}

// tellOwner has the owner of the app hear of something that a cluster belongs to. The caller holds the lock.
func (s *Server) tellOwner(cluster string, is holding.Occasion) {
	if app, isKnown := s.room.Owner(cluster); isKnown {
		s.notify(app, is)
	}
}

// leave is the end of what enter began.
func (s *Server) leave(ticket holding.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Leave(ticket)
	delete(s.waiters, ticket)
}

// tell tells one that has left its outcome. The caller holds the lock.
func (s *Server) tell(ticket holding.Ticket, is outcome) {
	if waiter := s.waiters[ticket]; waiter != nil {
		waiter <- is
		delete(s.waiters, ticket)
	}
}
