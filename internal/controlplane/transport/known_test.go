package transport_test

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
)

// arrivals is a listener with connections of peers.
type arrivals struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (a arrivals) Accept() (net.Conn, error) {
	select {
	case conn := <-a.conns:
		return conn, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a arrivals) Close() error {
	close(a.closed)
	return nil
}

func (a arrivals) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 5678} }

// peerConn is a connection of a peer. Nothing may be read from it.
type peerConn struct {
	net.Conn

	from     netip.Addr
	isRead   atomic.Bool
	isClosed atomic.Bool
}

func (c *peerConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 40000))
}

func (c *peerConn) Read([]byte) (int, error) {
	c.isRead.Store(true)
	return 0, net.ErrClosed
}

func (c *peerConn) Close() error {
	c.isClosed.Store(true)
	return nil
}

// door is a listener that knows some peers.
type door struct {
	*transport.Listener

	arrivals arrivals
	known    sync.Map
	log      *strings.Builder
}

// openDoor opens a door in a bubble.
func openDoor() *door {
	d := &door{arrivals: arrivals{make(chan net.Conn), make(chan struct{})}, log: new(strings.Builder)}
	d.Listener = transport.Listen(d.arrivals, transport.Options{
		IsKnown: func(peer netip.Addr) bool {
			_, isKnown := d.known.Load(peer)
			return isKnown
		},
		Hint: "do this", Logger: slog.New(slog.NewTextHandler(d.log, nil)),
	})
	return d
}

// connect adds connections of a peer.
func (d *door) connect(from netip.Addr, count int) (conns []*peerConn) {
	for range count {
		conn := &peerConn{from: from}
		d.arrivals.conns <- conn
		conns = append(conns, conn)
	}
	synctest.Wait()
	return conns
}

// accept returns the peer of the next connection.
func (d *door) accept(t *testing.T) netip.Addr {
	t.Helper()
	conn, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted, isPeer := conn.(*peerConn)
	if !isPeer {
		t.Fatalf("accepted %T", conn)
	}
	return accepted.from
}

// closed returns how many connections were closed.
func closed(conns []*peerConn) (count int) {
	synctest.Wait()
	for _, conn := range conns {
		if conn.isClosed.Load() {
			count++
		}
	}
	return count
}

// TestUnknownPeersWait has a peer that becomes known while its connections wait, and one that does not. Nothing is read
// from either.
func TestUnknownPeersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, late, stranger := openDoor(), netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
		first, second := d.connect(late, 2), d.connect(stranger, 9)
		if count := closed(second); count != 1 {
			t.Errorf("%d of 9 connections of an unknown peer were closed at once, want 1", count)
		}
		time.Sleep(500 * time.Millisecond)
		d.known.Store(late, true)
		for range first {
			if from := d.accept(t); from != late {
				t.Errorf("accepted %s", from)
			}
		}
		time.Sleep(time.Second)
		if closed(first) != 0 || closed(second) != 9 {
			t.Errorf("%d and %d were closed, want 0 and 9", closed(first), closed(second))
		}
		for _, conn := range append(first, second...) {
			if conn.isRead.Load() {
				t.Errorf("%s: the connection was read", conn.from)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		const reason = "no fleet has a proxy with this address, and no replica of the interceptor has it; do this"
		if log := d.log.String(); strings.Count(log, reason) != 1 || !strings.Contains(log, "peer=10.0.0.8:40000") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestUnknownPeersLockOutNoKnownOnes has many unknown peers. A known one connects meanwhile.
func TestUnknownPeersLockOutNoKnownOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, known, stranger := openDoor(), netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.1.0.0")
		d.known.Store(known, true)
		var strangers []*peerConn
		for range 100 {
			strangers = append(strangers, d.connect(stranger, 8)...)
			stranger = stranger.Next()
		}
		if count := closed(strangers); count != 800-256 {
			t.Errorf("%d of 800 connections were closed at once, want all but 256", count)
		}
		d.connect(known, 256)
		for range 256 {
			if from := d.accept(t); from != known {
				t.Errorf("accepted %s", from)
			}
		}
		time.Sleep(time.Second)
		if count := closed(strangers); count != 800 {
			t.Errorf("%d of 800 connections were closed after a second", count)
		}
		_ = d.Close()
	})
}
