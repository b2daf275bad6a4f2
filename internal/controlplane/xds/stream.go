package xds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// messageLimit is how much of a NACK's reason is kept, in bytes.
const messageLimit = 4096

// transport is one gRPC stream of either mode.
type transport interface {
	// receive waits for the next request. io.EOF means that the proxy closed the stream.
	receive() (session.Request, error)
	// send sends a response. It may wait for a slow proxy.
	send(response session.Response) error
}

// stream is a session and what identifies its proxy.
type stream struct {
	number  uint64
	mode    session.Mode
	peer    string
	address netip.Addr // of the peer
	fleet   *fleet

	// hasIPv6 is true for a proxy with an IPv6 address, and isDrained for one that has lost the drained listeners. They
	// never become false.
	hasIPv6, isDrained bool
	topology           session.Topology // of the proxy; of the goroutine of serve
	hasRefused         bool             // names were refused; of the goroutine of serve
	// requestsListeners is true once the proxy has requested listeners; of the goroutine of serve.
	requestsListeners bool
	// isProven is true for a proxy that has proven its fleet, or need not. hasRequestedKeys is true once another one has
	// subscribed to certificates; of the goroutine of serve.
	isProven, hasRequestedKeys bool
	// hasProof is true for a proxy that has proven its fleet.
	hasProof bool

	// isAdmitted is true once there is memory for the stream to join.
	isAdmitted atomic.Bool

	mu      sync.Mutex // guards the session
	session *session.Session
}

// member returns the proxy of the stream.
func (st *stream) member() Member { return Member{st.fleet.name, st.address} }

// receive passes a request of the proxy to the session.
func (st *stream) receive(r session.Request) session.Output {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.Receive(time.Now(), r)
}

// publish passes a new snapshot to the session.
func (st *stream) publish(snapshot *session.Snapshot) session.Output {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.Publish(time.Now(), snapshot)
}

// withhold sets the listeners that the proxy must not have.
func (st *stream) withhold(names []string) session.Output {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.WithholdListeners(time.Now(), names)
}

// setTopology sets where the proxy runs.
func (st *stream) setTopology(topology session.Topology) session.Output {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.topology = topology
	return st.session.SetTopology(time.Now(), topology)
}

// withholdSecrets makes the proxy receive no certificates.
func (st *stream) withholdSecrets() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.session.WithholdSecrets()
}

// tick runs what is due in the session.
func (st *stream) tick() session.Output {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.Tick(time.Now())
}

// timer fires when the session's next tick is due; nil for never.
func (st *stream) timer() <-chan time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	if at, isDue := st.session.NextTick(); isDue {
		return time.After(time.Until(at))
	}
	return nil
}

// serve runs one stream. Only this goroutine steps the session and sends, so a slow proxy delays no other. Meanwhile
// requests wait in gRPC's flow control window.
func (s *Server) serve(ctx context.Context, mode session.Mode, t transport) error {
	from := peerOf(ctx)
	leave, err := s.enter(from)
	if err != nil {
		return err
	}
	defer leave()
	name, isProven, err := s.fleetOf(ctx, from)
	if err != nil {
		return err
	}
	st, err := s.addStream(mode, from, name)
	if err != nil {
		return err
	}
	logger := s.options.Logger.With(slog.Uint64("stream", st.number), slog.String("fleet", name),
		slog.String("peer", st.peer), slog.String("mode", string(mode)))
	if s.options.Identify != nil {
		logger = logger.With(slog.Bool("authenticated", isProven))
	}
	logger.InfoContext(ctx, "proxy connected")
	st.hasProof = isProven && s.options.Identify != nil
	if st.isProven = isProven; !isProven {
		st.withholdSecrets()
		s.options.Metrics.unauthenticated.Inc()
		defer s.options.Metrics.unauthenticated.Dec()
	}
	streams := s.options.Metrics.streams.WithLabelValues(string(mode))
	streams.Inc()
	s.options.Callbacks.OnStreamOpen(StreamState{stream: st})
	defer func() {
		s.options.Callbacks.OnStreamClosed(StreamState{stream: st})
		s.removeStream(st)
		streams.Dec()
		logger.InfoContext(ctx, "proxy disconnected")
	}()
	reserved := s.admit(ctx, st.fleet)
	defer reserved.Release()
	st.isAdmitted.Store(true)
	s.signal()
	return s.run(ctx, st, t, logger, reserved)
}

// run steps the session until the stream ends. It releases the reservation once the proxy has its first resources.
func (s *Server) run(
	ctx context.Context, st *stream, t transport, logger *slog.Logger, reserved *grpcserver.Reservation,
) error {
	requests, handled, ended := make(chan session.Request), make(chan struct{}, 1), make(chan error, 1)
	go receiveAll(ctx, t, requests, handled, ended)
	none := make(chan struct{})
	close(none)
	latest := &publication{superseded: none}
	var ready <-chan session.Request // requests, once there is a snapshot
	var drain <-chan time.Time
	overdue := time.NewTimer(joinTimeout)
	defer overdue.Stop()
	st.isDrained = s.isDrainOver(s.membership.Load(), st)
	st.withhold(s.withheldListeners(st))
	for {
		members := s.membership.Load()
		if err := members.checkFleet(st); err != nil { // The membership may be newer than that in fleetOf.
			return err
		}
		if drain == nil {
			drain = s.drainTimer(members, st)
		}
		if err := s.applyMembership(members, st, t); err != nil {
			return err
		}
		var out session.Output
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return errShuttingDown()
		case <-st.fleet.retired:
			return status.Errorf(codes.Unavailable, "fleet %q has been removed: it has no objects and no proxies",
				st.fleet.name)
		case <-members.superseded:
			continue
		case end := <-ended:
			return end
		case r := <-ready:
			out = s.receive(ctx, members, st, r, logger)
			handled <- struct{}{}
		case <-latest.superseded:
			if latest = st.fleet.current(); latest.snapshot == nil {
				continue
			}
			ready = requests
			out = st.publish(latest.snapshot)
		case <-drain:
			logger.InfoContext(ctx, "draining proxy: removing its listeners")
			st.isDrained = true
			out = st.withhold(s.withheldListeners(st))
		case <-overdue.C:
			if err := checkJoin(reserved); err != nil {
				return err
			}
			overdue.Reset(joinPause)
		case <-st.timer():
			out = st.tick()
		}
		if err := s.sendAll(t, out.Responses); err != nil {
			return err
		}
		if st.hasJoined() {
			overdue.Stop()
			reserved.Release()
		}
	}
}

// receive steps the session by a request, and reports what it says.
func (s *Server) receive(
	ctx context.Context, members *membership, st *stream, r session.Request, logger *slog.Logger,
) session.Output {
	r.Message = strings.ToValidUTF8(r.Message[:min(len(r.Message), messageLimit)], "")
	due := s.withholdDrained(members, st, r)
	out := st.receive(r)
	out.Responses = append(due, out.Responses...)
	s.reportAnswer(ctx, logger, st, out.Answer)
	reportRefused(ctx, logger, st, r.TypeURL, out.Refused)
	reportWithheld(ctx, logger, st, r)
	return out
}

// applyMembership sends the listeners with an IPv6 address once the proxy has an IPv6 address, and the endpoints with
// hints when the topology of the proxy becomes known or changes.
func (s *Server) applyMembership(members *membership, st *stream, t transport) error {
	var due []session.Response
	if !st.hasIPv6 && slices.Contains(members.WithIPv6, st.member()) {
		st.hasIPv6 = true
		due = st.withhold(s.withheldListeners(st)).Responses
	}
	if topology, isKnown := members.Topologies[st.member()]; isKnown && topology != st.topology {
		due = append(due, st.setTopology(topology).Responses...)
	}
	return s.sendAll(t, due)
}

// reportAnswer reports what the proxy answered, nil for nothing, to metrics, log and callbacks.
func (s *Server) reportAnswer(ctx context.Context, logger *slog.Logger, st *stream, answer *session.Answer) {
	switch {
	case answer == nil:
	case answer.Accepted:
		s.options.Metrics.acks.WithLabelValues(answer.Kind.String()).Inc()
	default:
		s.options.Metrics.nacks.WithLabelValues(answer.Kind.String()).Inc()
		logger.WarnContext(ctx, "proxy rejected resources",
			slog.String("type", answer.Kind.String()), slog.Int("resources", len(answer.Names)),
			slog.Any("names", answer.Names[:min(len(answer.Names), 10)]), slog.String("reason", answer.Message))
	}
	s.signal()
	if answer != nil && answer.Accepted && answer.Kind == session.EndpointKind {
		s.options.Callbacks.OnEndpointsAcked(StreamState{stream: st})
	}
}

// reportRefused logs the first names of a stream that exceed the limits of subscriptions.
func reportRefused(ctx context.Context, logger *slog.Logger, st *stream, typeURL string, refused int) {
	if refused > 0 && !st.hasRefused {
		st.hasRefused = true
		logger.WarnContext(ctx, "proxy subscribed to more or longer names than the limits allow, ignoring the rest",
			slog.String("typeUrl", typeURL), slog.Int("names", refused))
	}
}

// reportWithheld logs the first request for certificates of a stream that receives none. The log contains no names,
// because clients of the proxy choose them, in any number.
func reportWithheld(ctx context.Context, logger *slog.Logger, st *stream, r session.Request) {
	requested := len(r.Subscribe) + len(r.Names)
	if r.TypeURL != session.SecretKind.TypeURL() || requested == 0 || st.isProven || st.hasRequestedKeys {
		return
	}
	st.hasRequestedKeys = true
	logger.WarnContext(ctx, "proxy requests certificates and receives none: private keys are sent only over TLS, to a "+
		"proxy that proves its namespace by a token", slog.Int("certificates", requested))
}

// sendAll sends the responses of a step.
func (s *Server) sendAll(t transport, responses []session.Response) error {
	for _, r := range responses {
		if fault.SlowRoutes && r.Kind == session.ScopeKind { // Only in mutants.
			time.Sleep(time.Second)
		}
		if err := t.send(r); err != nil {
			return err
		}
		s.options.Metrics.responses.WithLabelValues(r.Kind.String()).Inc()
		s.options.Metrics.resources.WithLabelValues(r.Kind.String()).Add(float64(len(r.Resources) + len(r.Removed)))
	}
	return nil
}

// receiveAll passes the proxy's requests on, one at a time, until the stream ends. It receives no other one before a
// request was handled, because the memory of one is reserved until then. It is no error if the proxy closes the stream.
func receiveAll(
	ctx context.Context, t transport, requests chan<- session.Request, handled <-chan struct{}, ended chan<- error,
) {
	for {
		r, err := t.receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				ended <- err
			}
			close(ended)
			return
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return
		}
		select {
		case <-handled:
		case <-ctx.Done():
			return
		}
	}
}

// peerOf returns the address of the proxy.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
