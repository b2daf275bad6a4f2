package xds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// messageLimit is how much of a NACK's reason is kept, in bytes.
const messageLimit = 4096

// transport is one gRPC stream of either form.
type transport interface {
	// mode is the form that the stream speaks.
	mode() Mode
	// receive waits for the next request. io.EOF says that the proxy is done.
	receive() (request, error)
	// send sends a response. It may wait for a slow proxy.
	send(response) error
}

// stream is a session with what others need to know beside it.
type stream struct {
	number uint64
	peer   string
	fleet  *fleet

	mu      sync.Mutex // guards what follows: Poll reads it
	session *session
	// heldBack is what was counted last.
	heldBack [kindCount]int
}

// step runs one step of the session.
func (st *stream) step(do func(*session, time.Time) (output, error)) (output, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return do(st.session, time.Now())
}

// receive hands a request to the session.
func (st *stream) receive(r request) (output, error) {
	return st.step(func(s *session, now time.Time) (output, error) {
		r.message = strings.ToValidUTF8(r.message[:min(len(r.message), messageLimit)], "")
		return s.receive(now, r)
	})
}

// publish hands a snapshot to the session, unless there is none yet.
func (st *stream) publish(latest *snapshot) output {
	if latest == nil {
		return output{}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.publish(time.Now(), latest)
}

// held returns by how much the number of things that are held back has changed
// since the last call, for each kind. An ended stream holds nothing back.
func (st *stream) held(ended bool) (changes [kindCount]int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for k := range kind(kindCount) {
		now := 0
		if !ended {
			now = len(st.session.heldBack(k))
		}
		changes[k], st.heldBack[k] = now-st.heldBack[k], now
	}
	return changes
}

// wake returns how long to wait before the session's next tick, and false when
// none is due.
func (st *stream) wake() (time.Duration, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	at, due := st.session.wake()
	return time.Until(at), due
}

// serve runs one stream: it alone steps the session and sends, so a proxy that
// reads slowly holds up nobody else. Requests wait in gRPC's window meanwhile.
func (s *Server) serve(ctx context.Context, t transport) error {
	from := peerOf(ctx)
	name, err := s.fleetOf(ctx, from)
	if err != nil {
		return err
	}
	st, err := s.open(t.mode(), from, name)
	if err != nil {
		return err
	}
	logger := s.logger.With(slog.Uint64("stream", st.number), slog.String("fleet", name),
		slog.String("peer", st.peer), slog.String("mode", t.mode().String()))
	logger.InfoContext(ctx, "Proxy connected")
	s.metrics.streams.WithLabelValues(t.mode().String()).Inc()
	s.signal()
	s.follower.Opened(StreamState{stream: st})
	defer func() {
		s.follower.Closed(StreamState{stream: st})
		s.leave(st)
		s.countHeld(st, true)
		s.metrics.streams.WithLabelValues(t.mode().String()).Dec()
		logger.InfoContext(ctx, "Proxy disconnected")
	}()
	joined := s.admit(ctx, st.fleet)
	defer joined()
	requests, ended := make(chan request), make(chan error, 1)
	go receiveAll(ctx, t, requests, ended)
	return s.run(ctx, st, t, logger, requests, ended, joined)
}

// run steps the session until the stream ends. It calls joined once the proxy has what it asked for first.
func (s *Server) run(
	ctx context.Context, st *stream, t transport, logger *slog.Logger,
	requests <-chan request, ended <-chan error, joined func(),
) error {
	timer := time.NewTimer(pingInterval)
	timer.Stop()
	defer timer.Stop()
	latest := &edition{superseded: closedChannel()}
	members := s.membership.Load()
	if err := members.check(st); err != nil { // It may be another one than fleetOf has asked.
		return err
	}
	var going leaving
	going.heed(s, members, addressOf(st.peer))
	for {
		var out output
		var err error
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return errShuttingDown()
		case <-st.fleet.retired:
			return errRetired(st.fleet.name)
		case <-members.superseded:
			members = s.membership.Load()
			if err := members.check(st); err != nil {
				return err
			}
			going.heed(s, members, addressOf(st.peer))
			continue
		case end := <-ended:
			return ending(end)
		case r := <-requests:
			out, err = st.receive(r)
			s.tellVerdicts(ctx, logger, out.verdicts)
			s.signal()
			s.tellFollower(st, out.verdicts)
		case <-latest.superseded:
			latest = st.fleet.current()
			out = st.publish(going.view(latest.snapshot))
		case <-going.due:
			logger.InfoContext(ctx, "Proxy is about to go and takes no new connections")
			going.gone = s.leftListeners
			out = st.publish(going.view(latest.snapshot))
		case <-timer.C:
			out, err = st.step(func(ss *session, now time.Time) (output, error) { return ss.tick(now), nil })
		}
		if err != nil {
			return status.Error(codes.ResourceExhausted, err.Error())
		}
		s.countHeld(st, false)
		if err := s.sendAll(t, out.responses); err != nil {
			return err
		}
		if st.hasJoined() {
			joined()
		}
		if wait, due := st.wake(); due {
			timer.Reset(max(0, wait))
		} else {
			timer.Stop()
		}
	}
}

// countHeld counts what is held back from a proxy.
func (s *Server) countHeld(st *stream, ended bool) {
	for k, change := range st.held(ended) {
		if change != 0 {
			s.metrics.heldBack.WithLabelValues(kind(k).String()).Add(float64(change))
		}
	}
}

// tellVerdicts reports what the proxy answered.
func (s *Server) tellVerdicts(ctx context.Context, logger *slog.Logger, verdicts []verdict) {
	for _, v := range verdicts {
		if v.accepted {
			s.metrics.acks.WithLabelValues(v.kind.String()).Inc()
		} else {
			s.metrics.nacks.WithLabelValues(v.kind.String()).Inc()
			logger.WarnContext(ctx, "Proxy refused resources",
				slog.String("type", v.kind.String()), slog.Int("resources", len(v.names)),
				slog.Any("names", v.names[:min(len(v.names), 10)]), slog.String("reason", v.message))
		}
	}
}

// sendAll sends what a step decided.
func (s *Server) sendAll(t transport, responses []response) error {
	for _, r := range responses {
		if err := t.send(r); err != nil {
			return err
		}
		s.metrics.responses.WithLabelValues(r.kind.String()).Inc()
		s.metrics.resources.WithLabelValues(r.kind.String()).Add(float64(len(r.resources) + len(r.removed)))
	}
	return nil
}

// receiveAll passes the proxy's requests on, one at a time, until the stream
// ends.
func receiveAll(ctx context.Context, t transport, requests chan<- request, ended chan<- error) {
	for {
		r, err := t.receive()
		if err != nil {
			ended <- err
			return
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return
		}
	}
}

// ending turns the error that ended the requests into that of the stream: a
// proxy that is done is no error.
func ending(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// peerOf is the address of the proxy.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// closedChannel returns a channel that is ready to be read: the state before the
// first edition was looked at.
func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
