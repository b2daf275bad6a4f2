package grpcserver

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// maxRefusing is the maximum number of streams whose refusal is being sent. Above it, refused streams are reset, which
// takes no memory.
const maxRefusing = 256

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(server.ConnContext(ctx, conn), connKey{}, conn)
}

// closeConn closes the connection of a request.
func closeConn(r *http.Request) {
	if conn, has := r.Context().Value(connKey{}).(net.Conn); has {
		_ = conn.Close() // The peer receives the end of the connection, or has closed it.
	}
}

// enter counts a stream of an address until leave is called; ctx is that of the stream. The error is a gRPC status: the
// limits do not allow it.
func (s *Server) enter(
	ctx context.Context, from netip.Addr, limits Limits, r *http.Request,
) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[from] >= s.options.MaxStreams {
		return nil, status.Errorf(codes.ResourceExhausted, "the address %s has %d streams", from, s.options.MaxStreams)
	}
	limit := unlimited
	switch {
	case limits.isPush:
		limit = s.pushes.enter
	case limits.isCall:
		limit = s.calls.enter
	}
	leaveLimit := limit(from, r)
	if leaveLimit == nil {
		return nil, status.Error(codes.ResourceExhausted, "all addresses have too many streams")
	}
	s.streams[from]++
	return func() {
		context.AfterFunc(ctx, leaveLimit) // net/http cancels it after the last frame of the response.
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams[from]--; s.streams[from] == 0 {
			delete(s.streams, from)
		}
	}, nil
}

// unlimited is fairLimit.enter without a limit.
func unlimited(netip.Addr, *http.Request) (leave func()) { return func() {} }

// refuse counts a refused stream until its status is sent, or resets it if there are many: its peer may not read.
func (s *Server) refuse(r *http.Request) {
	if s.refusing.Add(1) > maxRefusing {
		s.refusing.Add(-1)
		panic(http.ErrAbortHandler)
	}
	context.AfterFunc(r.Context(), func() { s.refusing.Add(-1) })
}

// fairLimit limits the streams of all addresses. It is safe for concurrent use.
type fairLimit struct {
	limit, floor int

	mu      sync.Mutex // guards the fields below
	total   int
	streams map[netip.Addr]map[*http.Request]struct{}
}

// newFairLimit returns a limit; 0 means none. An address with at most floor streams loses none of them to others.
func newFairLimit(limit, floor int) *fairLimit {
	return &fairLimit{limit: limit, floor: floor, streams: map[netip.Addr]map[*http.Request]struct{}{}}
}

// enter counts a stream until leave is called. Above the limit, a connection of the address with the most streams is
// closed. leave is nil if that address has no more than the floor, or no more than the address of this stream.
func (l *fairLimit) enter(from netip.Addr, r *http.Request) (leave func()) {
	if l.limit == 0 {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.limit {
		most := l.most()
		if own := len(l.streams[from]); len(l.streams[most]) <= max(own+1, l.floor) {
			return nil
		}
		for surplus := range l.streams[most] {
			closeConn(surplus)
			l.remove(most, surplus)
			break
		}
	}
	if l.streams[from] == nil {
		l.streams[from] = map[*http.Request]struct{}{}
	}
	l.streams[from][r] = struct{}{}
	l.total++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(from, r)
	}
}

// most returns the address with the most streams. The caller holds the lock.
func (l *fairLimit) most() (most netip.Addr) {
	for address, streams := range l.streams {
		if len(streams) > len(l.streams[most]) {
			most = address
		}
	}
	return most
}

// remove removes a stream if it counts. The caller holds the lock.
func (l *fairLimit) remove(from netip.Addr, r *http.Request) {
	if _, counts := l.streams[from][r]; !counts {
		return
	}
	l.total--
	if delete(l.streams[from], r); len(l.streams[from]) == 0 {
		delete(l.streams, from)
	}
}
