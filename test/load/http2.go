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

// dialHTTP2 opens an HTTP/2 connection by prior knowledge (RFC 9113 §3.3).
// A ClientConn, unlike the Transport it is made by, sends a request once.
func dialHTTP2(ctx context.Context, t target) (*http2Conn, error) {
	transport := &http.Transport{DialContext: t.connect, Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	conn, err := transport.NewClientConn(ctx, "http", t.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &http2Conn{ClientConn: conn, opened: time.Now()}, nil
}

// usable says whether a connection takes another request. After a GOAWAY it
// doesn't, although it lives on until its last stream has ended.
func usable(conn *http2Conn) bool { return conn.Err() == nil && conn.Available() > 0 }

// askHTTP2 sends one request on a stream of its own.
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
	_ = conn.Close() // the answer is in, or the failure is known
	return a, err
}

func (freshHTTP2) close() {}

// keptHTTP2 takes turns on a few connections, each carrying many streams.
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
			_ = conn.Close() // the run is over
		}
	}
}

// sharedHTTP2 is a connection that is opened when it is first needed, and
// opened anew once the server has said goodbye to it (GOAWAY).
type sharedHTTP2 struct {
	mu   sync.Mutex
	conn *http2Conn
}

func (s *sharedHTTP2) get(ctx context.Context, t target) (*http2Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && usable(s.conn) {
		return s.conn, nil
	}
	// Streams that are still open on the old one may end; it closes itself then.
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
	if usable(l.conn) {
		return nil
	}
	return fmt.Errorf("%w: the server closed it or sent GOAWAY", ErrPinnedLost)
}

func (l *pinnedHTTP2) close() { _ = l.conn.Close() } // the run is over
