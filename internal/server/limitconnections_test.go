package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// fakeListener accepts the connections in arrivals. Then it is closed.
type fakeListener struct {
	net.Listener

	arrivals chan *fakeConn
}

func (l fakeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arrivals:
		return conn, nil
	default:
		return nil, net.ErrClosed
	}
}

func (l fakeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5678} }

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn

	from   net.TCPAddr
	closed int
}

func (c *fakeConn) RemoteAddr() net.Addr { return &c.from }

func (c *fakeConn) Close() error {
	c.closed++
	return nil
}

// limited is a listener with limits, and its log.
type limited struct {
	net.Listener

	arrivals chan *fakeConn
	log      *bytes.Buffer
	port     int
}

func newLimited(total, perAddress int) *limited {
	l := &limited{arrivals: make(chan *fakeConn, 1000), log: new(bytes.Buffer)}
	l.Listener = server.LimitConnections(fakeListener{arrivals: l.arrivals},
		server.ConnectionLimits{Total: total, PerAddress: perAddress}, slog.New(slog.NewTextHandler(l.log, nil)))
	return l
}

// connect adds a connection from an address.
func (l *limited) connect(from string) *fakeConn {
	l.port++
	conn := &fakeConn{from: net.TCPAddr{IP: net.ParseIP(from), Port: l.port}}
	l.arrivals <- conn
	return conn
}

// accept accepts all connections that have arrived, and returns those that Accept has returned.
func (l *limited) accept(t *testing.T) (accepted []net.Conn) {
	t.Helper()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return accepted
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, conn)
	}
}

// TestLimitConnectionsOfOneAddress: its connections above the limit are closed, those of others are not, and there is
// one warning. An IPv4 address in IPv6 form is the same address.
func TestLimitConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	l := newLimited(100, 3)
	var first []*fakeConn
	for _, from := range []string{"10.0.0.7", "::ffff:10.0.0.7", "10.0.0.7"} {
		first = append(first, l.connect(from))
	}
	above, more, other := l.connect("10.0.0.7"), l.connect("10.0.0.7"), l.connect("2001:db8::7")
	if accepted := l.accept(t); len(accepted) != 4 {
		t.Errorf("%d connections were accepted, want 4", len(accepted))
	}
	for _, conn := range append(first, other) {
		if conn.closed != 0 {
			t.Errorf("the connection of %s was closed", &conn.from)
		}
	}
	if above.closed != 1 || more.closed != 1 {
		t.Errorf("the connections above the limit were closed %d and %d times, want once", above.closed, more.closed)
	}
	if count := strings.Count(l.log.String(), "too many connections"); count != 1 {
		t.Errorf("%d warnings, want 1:\n%s", count, l.log)
	}
}

// TestLimitConnectionsIsFair fills a port by the connections of two addresses. Others get in nevertheless, and replace
// the newest connections of these two.
func TestLimitConnectionsIsFair(t *testing.T) {
	t.Parallel()
	l := newLimited(8, 4)
	var greedy []*fakeConn
	for range 4 {
		greedy = append(greedy, l.connect("10.0.0.7"), l.connect("10.0.0.8"))
	}
	var others []*fakeConn
	for i := range 4 {
		others = append(others, l.connect(fmt.Sprintf("10.0.1.%d", i)))
	}
	late := l.connect("10.0.0.7")
	l.accept(t)
	for _, conn := range others {
		if conn.closed != 0 {
			t.Errorf("the only connection of %s was closed", &conn.from)
		}
	}
	for i, conn := range greedy {
		want := 0
		if i >= 4 { // The first two of each address stay.
			want = 1
		}
		if conn.closed != want {
			t.Errorf("connection %d of the two addresses was closed %d times, want %d", i, conn.closed, want)
		}
	}
	if late.closed != 1 {
		t.Error("a connection of an address with as many as the others was not closed")
	}
}

// TestLimitConnectionsCountsOpenOnes opens and closes connections at random, some twice. A connection of an address
// without others is always accepted, and there are never more than the limits.
func TestLimitConnectionsCountsOpenOnes(t *testing.T) {
	t.Parallel()
	const total, perAddress, addresses = 6, 3, 5
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLimited(total, perAddress)
	open := map[*fakeConn]net.Conn{}
	for step := range 2000 {
		if rng.IntN(2) == 0 {
			closeOne(open, 1+rng.IntN(2))
			continue
		}
		conn := l.connect(fmt.Sprintf("10.0.0.%d", rng.IntN(addresses)))
		before := countOpen(open)
		for _, accepted := range l.accept(t) {
			open[conn] = accepted
		}
		if from := conn.from.IP.String(); before[from] == 0 && conn.closed > 0 {
			t.Fatalf("step %d: the only connection of %s was closed: %v", step, from, before)
		}
		all := 0
		for from, count := range countOpen(open) {
			if all += count; count > perAddress || all > total {
				t.Fatalf("step %d: %d connections are open, %d of them from %s", step, all, count, from)
			}
		}
	}
}

// closeOne closes one of the connections, several times.
func closeOne(open map[*fakeConn]net.Conn, times int) {
	for conn, accepted := range open {
		for range times {
			_ = accepted.Close()
		}
		delete(open, conn)
		return
	}
}

// countOpen returns the number of connections of each address, and removes those that the listener has closed.
func countOpen(open map[*fakeConn]net.Conn) map[string]int {
	counts := map[string]int{}
	for conn := range open {
		if conn.closed > 0 {
			delete(open, conn)
		} else {
			counts[conn.from.IP.String()]++
		}
	}
	return counts
}

// TestLimitedConnectionWorks sends bytes through a limited listener of this machine.
func TestLimitedConnectionWorks(t *testing.T) {
	t.Parallel()
	inner, err := server.Listen(t.Context(), "test", "127.0.0.1:0", "--test")
	if err != nil {
		t.Fatal(err)
	}
	listener := server.LimitConnections(inner, server.ConnectionLimits{Total: 1, PerAddress: 1},
		slog.New(slog.DiscardHandler))
	defer func() { _ = listener.Close() }()
	for range 3 { // Each connection takes the place of the one before, which was closed.
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(accepted, "hello"); err != nil {
			t.Fatal(err)
		}
		_ = accepted.Close()
		if text, err := io.ReadAll(client); err != nil || string(text) != "hello" {
			t.Errorf("received %q, %v", text, err)
		}
		_ = client.Close()
	}
}
