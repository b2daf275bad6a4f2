package load

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// http2Conn is one HTTP/2 connection.
type http2Conn struct {
	*http.ClientConn

	opened time.Time
}

// dialHTTP2 opens an HTTP/2 connection with prior knowledge (RFC 9113 §3.3). A ClientConn, unlike the Transport that
// creates it, sends a request only once.
func dialHTTP2(ctx context.Context, t target) (*http2Conn, error) {
	transport := &http.Transport{DialContext: t.connect, Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	conn, err := transport.NewClientConn(ctx, "http", t.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &http2Conn{ClientConn: conn, opened: time.Now()}, nil
}

// isUsable reports whether a connection can carry another request. After a GOAWAY it cannot, although it stays open
// until its last stream has ended.
func isUsable(conn *http2Conn) bool { return conn.Err() == nil && conn.Available() > 0 }

// askHTTP2 sends one request on a new stream.
func askHTTP2(ctx context.Context, conn *http2Conn, t target) (a answer, err error) {
	defer func() { a.opened = conn.opened }()
	request, err := t.request(ctx)
	if err != nil {
		return answer{}, err
	}
	response, err := conn.RoundTrip(request)
	if err != nil {
		return answer{}, fmt.Errorf("send the request: %w", err)
	}
	return readAnswer(response)
}

// freshHTTP2 opens a connection for every request.
type freshHTTP2 struct{ target target }

func (l freshHTTP2) ask(ctx context.Context) (answer, error) {
	conn, err := dialHTTP2(ctx, l.target)
	if err != nil {
		return answer{}, err
	}
	a, err := askHTTP2(ctx, conn, l.target)
	_ = conn.Close() // the response is complete, or has failed
	return a, err
}

func (freshHTTP2) close() {}

// keptHTTP2 uses a few connections in turn. Each of them carries many streams.
type keptHTTP2 struct {
	target target
	turn   atomic.Uint32
	conns  [2]sharedHTTP2
}

func (l *keptHTTP2) ask(ctx context.Context) (answer, error) {
	conn, err := l.conns[int(l.turn.Add(1))%len(l.conns)].get(ctx, l.target)
	if err != nil {
		return answer{}, err
	}
	return askHTTP2(ctx, conn, l.target)
}

func (l *keptHTTP2) close() {
	for i := range l.conns {
		if conn := l.conns[i].conn; conn != nil {
			_ = conn.Close() // the run has ended
		}
	}
}

// sharedHTTP2 is a connection that is opened for its first request, and again after the server has sent a GOAWAY.
type sharedHTTP2 struct {
	mu   sync.Mutex
	conn *http2Conn
}

func (s *sharedHTTP2) get(ctx context.Context, t target) (*http2Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && isUsable(s.conn) {
		return s.conn, nil
	}
	// Open streams of the previous connection may end; then it closes itself.
	conn, err := dialHTTP2(ctx, t)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// pinnedHTTP2 is one connection for the whole run.
type pinnedHTTP2 struct {
	target target
	conn   *http2Conn
}

func (l *pinnedHTTP2) ask(ctx context.Context) (answer, error) {
	if l.lost() != nil {
		return answer{opened: l.conn.opened}, ErrPinnedLost
	}
	return askHTTP2(ctx, l.conn, l.target)
}

func (l *pinnedHTTP2) lost() error {
	if isUsable(l.conn) {
		return nil
	}
	return fmt.Errorf("%w: the server closed it or sent GOAWAY", ErrPinnedLost)
}

func (l *pinnedHTTP2) close() { _ = l.conn.Close() } // the run has ended
