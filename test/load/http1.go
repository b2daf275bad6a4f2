package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// maxBody is the maximum number of bytes read from a response body.
const maxBody = 1 << 12

// answer is a response.
type answer struct {
	status int
	body   string
	// reason and server are the headers X-Kedify-Reason and Server.
	reason, server string
	opened         time.Time // when its connection was opened; zero if there was none
}

// target contains the address and headers of requests, and the dialer.
type target struct {
	address, host, path string
	header              map[string]string
	connect             func(ctx context.Context, network, address string) (net.Conn, error)
}

// dial opens a TCP connection.
func (t target) dial(ctx context.Context) (net.Conn, error) {
	conn, err := t.connect(ctx, "tcp", t.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// request builds one request.
func (t target) request(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.address+t.path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	request.Host = t.host
	request.Header.Set("User-Agent", "rollouts-demo-load")
	for name, value := range t.header {
		request.Header.Set(name, value)
	}
	return request, nil
}

// readAnswer reads a complete response.
func readAnswer(response *http.Response) (answer, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	a := answer{
		status: response.StatusCode, body: string(body), reason: response.Header.Get("X-Kedify-Reason"),
		server: response.Header.Get("Server"),
	}
	if err != nil {
		return a, fmt.Errorf("read the body: %w", err)
	}
	return a, nil
}

// http1Conn is an HTTP/1.1 connection. It carries one request at a time.
type http1Conn struct {
	net.Conn

	in     *bufio.Reader
	opened time.Time
}

func dialHTTP1(ctx context.Context, t target) (*http1Conn, error) {
	conn, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &http1Conn{Conn: conn, in: bufio.NewReader(conn), opened: time.Now()}, nil
}

// ask sends one request and reads its response until the deadline of ctx. reusable is true if the connection can carry
// another request.
func (c *http1Conn) ask(ctx context.Context, t target) (a answer, reusable bool, err error) {
	defer func() { a.opened = c.opened }()
	request, err := t.request(ctx)
	if err != nil {
		return answer{}, false, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return answer{}, false, fmt.Errorf("set the deadline: %w", err)
		}
	}
	if err := request.Write(c); err != nil {
		return answer{}, false, fmt.Errorf("send the request: %w", err)
	}
	response, err := http.ReadResponse(c.in, request)
	if err != nil {
		return answer{}, false, fmt.Errorf("read the answer: %w", err)
	}
	a, err = readAnswer(response)
	return a, err == nil && !response.Close, err
}

// freshHTTP1 opens a connection for every request.
type freshHTTP1 struct{ target target }

func (l freshHTTP1) ask(ctx context.Context) (answer, error) {
	conn, err := dialHTTP1(ctx, l.target)
	if err != nil {
		return answer{}, err
	}
	a, _, err := conn.ask(ctx, l.target)
	_ = conn.Close() // the response is complete, or has failed
	return a, err
}

func (freshHTTP1) close() {}

// keptHTTP1 keeps idle connections and uses the one that was idle longest, so that all of them stay open during the
// whole run.
type keptHTTP1 struct {
	target target
	idle   chan *http1Conn
}

func (l keptHTTP1) ask(ctx context.Context) (answer, error) {
	var conn *http1Conn
	select {
	case conn = <-l.idle:
	default:
		fresh, err := dialHTTP1(ctx, l.target)
		if err != nil {
			return answer{}, err
		}
		conn = fresh
	}
	a, reusable, err := conn.ask(ctx, l.target)
	if reusable {
		select {
		case l.idle <- conn:
			return a, err
		default: // enough idle connections
		}
	}
	_ = conn.Close() // the response is complete, or has failed
	return a, err
}

func (l keptHTTP1) close() {
	for {
		select {
		case conn := <-l.idle:
			_ = conn.Close() // the run has ended
		default:
			return
		}
	}
}

// pinnedHTTP1 is one connection for the whole run. Requests that are due during another request wait for it, which is
// part of their latency.
type pinnedHTTP1 struct {
	target target
	conn   *http1Conn
	// turn has a slot for the one request in flight, which also guards why. It is a channel because goroutines that wait
	// for a mutex stop the clock of a synctest bubble.
	turn chan struct{}
	why  error
}

// newPinnedHTTP1 returns a sender over an open connection.
func newPinnedHTTP1(t target, conn *http1Conn) *pinnedHTTP1 {
	return &pinnedHTTP1{target: t, conn: conn, turn: make(chan struct{}, 1)}
}

func (l *pinnedHTTP1) ask(ctx context.Context) (answer, error) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.why != nil {
		return answer{opened: l.conn.opened}, ErrPinnedLost
	}
	a, reusable, err := l.conn.ask(ctx, l.target)
	if !reusable {
		l.why = err
		if err == nil {
			l.why = fmt.Errorf("%w: the server asked to close it", ErrPinnedLost)
		}
	}
	return a, err
}

func (l *pinnedHTTP1) lost() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return l.why
}

func (l *pinnedHTTP1) close() { _ = l.conn.Close() } // the run has ended
