package xds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
)

// messageLimit is how much of a NACK's reason is kept, in bytes.
const messageLimit = 4096

// transport is one gRPC stream of either form.
type transport interface {
	// receive waits for the next request. io.EOF says that the proxy is done.
	receive() (request, error)
	// send sends a response. It may wait for a slow proxy.
	send(response) error
}

// stream is a session with what others need to know beside it.
type stream struct {
	number  uint64
	peer    string
	address netip.Addr // of the peer
	fleet   *fleet

	mu      sync.Mutex // guards what follows: Poll reads it
	session *session
}

// step runs one step of the session.
func (st *stream) step(do func(*session, time.Time) (output, error)) (output, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return do(st.session, time.Now())
}

// alarm tells when the session's next tick is due, nil for never.
func (st *stream) alarm() <-chan time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	if at, due := st.session.wake(); due {
		return time.After(time.Until(at))
	}
	return nil
}

// serve runs one stream: it alone steps the session and sends, so a proxy that
// reads slowly holds up nobody else. Requests wait in gRPC's window meanwhile.
func (s *Server) serve(ctx context.Context, mode Mode, t transport) error {
	from := peerOf(ctx)
	name, err := s.fleetOf(ctx, from)
	if err != nil {
		return err
	}
	st, err := s.open(mode, from, name)
	if err != nil {
		return err
	}
	logger := s.options.Logger.With(slog.Uint64("stream", st.number), slog.String("fleet", name),
		slog.String("peer", st.peer), slog.String("mode", string(mode)))
	logger.InfoContext(ctx, "Proxy connected")
	streams := s.options.Metrics.streams.WithLabelValues(string(mode))
	streams.Inc()
	s.signal()
	s.options.Follower.Opened(StreamState{stream: st})
	defer func() {
		s.options.Follower.Closed(StreamState{stream: st})
		s.leave(st)
		streams.Dec()
		logger.InfoContext(ctx, "Proxy disconnected")
	}()
	joined := s.admit(ctx, st.fleet)
	defer joined()
	return s.run(ctx, st, t, logger, joined)
}

// run steps the session until the stream ends. It calls joined once the proxy has what it asked for first.
func (s *Server) run(ctx context.Context, st *stream, t transport, logger *slog.Logger, joined func()) error {
	requests, ended := make(chan request), make(chan error, 1)
	go receiveAll(ctx, t, requests, ended)
	unread := make(chan struct{})
	close(unread)
	latest := &edition{superseded: unread}
	var answerable <-chan request // once there is something to answer with
	var leaves, alarm <-chan time.Time
	for {
		members := s.membership.Load()
		if err := members.check(st); err != nil { // It may be another one than fleetOf has asked.
			return err
		}
		if leaves == nil {
			leaves = s.leaveTime(members, st)
		}
		var out output
		var err error
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return errShuttingDown()
		case <-st.fleet.retired:
			return status.Errorf(codes.Unavailable, "fleet %q has neither objects nor proxies any more", st.fleet.name)
		case <-members.superseded:
			continue
		case end := <-ended:
			return end
		case r := <-answerable:
			r.message = strings.ToValidUTF8(r.message[:min(len(r.message), messageLimit)], "")
			out, err = st.step(func(ss *session, now time.Time) (output, error) { return ss.receive(now, r) })
			s.tellVerdict(ctx, logger, st, out.verdict)
		case <-latest.superseded:
			if latest = st.fleet.current(); latest.snapshot == nil {
				continue
			}
			answerable = requests
			out, err = st.step(func(ss *session, now time.Time) (output, error) { return ss.publish(now, latest.snapshot), nil })
		case <-leaves:
			logger.InfoContext(ctx, "Proxy is about to go and takes no new connections")
			out, err = st.step(func(ss *session, now time.Time) (output, error) { return ss.leave(now, s.options.LeftListeners), nil })
		case <-alarm:
			out, err = st.step(func(ss *session, now time.Time) (output, error) { return ss.tick(now), nil })
		}
		if err != nil {
			return status.Error(codes.ResourceExhausted, err.Error())
		}
		if err := s.sendAll(t, out.responses); err != nil {
			return err
		}
		if st.hasJoined() {
			joined()
		}
		alarm = st.alarm()
	}
}

// tellVerdict reports what the proxy answered, nil for nothing.
func (s *Server) tellVerdict(ctx context.Context, logger *slog.Logger, st *stream, v *verdict) {
	switch {
	case v == nil:
	case v.accepted:
		s.options.Metrics.acks.WithLabelValues(v.kind.String()).Inc()
	default:
		s.options.Metrics.nacks.WithLabelValues(v.kind.String()).Inc()
		logger.WarnContext(ctx, "Proxy refused resources",
			slog.String("type", v.kind.String()), slog.Int("resources", len(v.names)),
			slog.Any("names", v.names[:min(len(v.names), 10)]), slog.String("reason", v.message))
	}
	s.signal()
	if v != nil && v.accepted && v.kind == endpointKind {
		s.options.Follower.Confirmed(StreamState{stream: st})
	}
}

// sendAll sends what a step decided.
func (s *Server) sendAll(t transport, responses []response) error {
	for _, r := range responses {
		if fault.SlowRoutes && r.kind == scopeKind { // Only in mutants.
			time.Sleep(time.Second)
		}
		if err := t.send(r); err != nil {
			return err
		}
		s.options.Metrics.responses.WithLabelValues(r.kind.String()).Inc()
		s.options.Metrics.resources.WithLabelValues(r.kind.String()).Add(float64(len(r.resources) + len(r.removed)))
	}
	return nil
}

// receiveAll passes the proxy's requests on, one at a time, until the stream ends. That a proxy is done is
// no error.
func receiveAll(ctx context.Context, t transport, requests chan<- request, ended chan<- error) {
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
	}
}

// peerOf is the address of the proxy.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}
