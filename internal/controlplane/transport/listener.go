package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// handshakeRecord is the first byte of a TLS connection.
	handshakeRecord = 22
	// openTimeout limits the time to the end of the handshake, or to the first byte without TLS.
	openTimeout = 10 * time.Second
	// maxPending limits the connections of one peer until then, so that it cannot use all memory.
	maxPending = 64
)

// Listener returns connections of both kinds: a [*tls.Conn] after its handshake, or one without TLS. A client that
// sends nothing, or whose handshake fails, delays no other one and is disconnected after 10 s. A peer with 64 such
// connections gets no other one. Make it with Listen.
type Listener struct {
	net.Listener

	certificates *Certificates
	logger       *slog.Logger
	accepted     chan net.Conn
	failed       chan error
	closed       chan struct{}
	closing      sync.Once

	mu      sync.Mutex // guards pending and perPeer
	pending map[net.Conn]struct{}
	perPeer map[netip.Addr]int // pending connections
	running sync.WaitGroup
}

// Listen accepts the connections of a listener. It logs failed handshakes. The caller must close the result.
func (c *Certificates) Listen(from net.Listener, logger *slog.Logger) *Listener {
	l := &Listener{
		Listener: from, certificates: c, logger: logger, accepted: make(chan net.Conn), failed: make(chan error, 1),
		closed: make(chan struct{}), pending: map[net.Conn]struct{}{}, perPeer: map[netip.Addr]int{},
	}
	l.running.Go(l.acceptAll)
	return l
}

// Accept returns the next connection whose kind is known.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case err := <-l.failed:
		return nil, err
	}
}

// Close closes the port and the connections that Accept has not returned.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closing.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
		l.mu.Lock()
		for conn := range l.pending {
			_ = conn.Close() // Accept will not return it.
		}
		l.mu.Unlock()
		l.running.Wait()
	})
	return err
}

// acceptAll accepts connections until the port is closed or fails.
func (l *Listener) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.failed <- err:
			case <-l.closed:
				return
			}
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // such as too many open files
				continue
			}
			return
		}
		if !l.track(conn) {
			_ = conn.Close() // The peer has too many, or the port is closed.
			continue
		}
		l.running.Go(func() { l.open(conn) })
	}
}

// track adds a connection to those that Close closes. It returns false after Close, and if the peer has too many.
func (l *Listener) track(conn net.Conn) bool {
	peer, _ := server.PeerAddress(conn.RemoteAddr().String())
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	if l.perPeer[peer] >= maxPending {
		return false
	}
	l.pending[conn] = struct{}{}
	l.perPeer[peer]++
	return true
}

// untrack removes a connection that track has added.
func (l *Listener) untrack(conn net.Conn) {
	peer, _ := server.PeerAddress(conn.RemoteAddr().String())
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, conn)
	if l.perPeer[peer]--; l.perPeer[peer] == 0 {
		delete(l.perPeer, peer)
	}
}

// open delivers a connection once its kind is known.
func (l *Listener) open(conn net.Conn) {
	opened, err := l.handshake(conn)
	l.untrack(conn)
	if err == nil {
		select {
		case l.accepted <- opened:
			return
		case <-l.closed:
		}
	} else {
		l.logger.Debug("connection rejected",
			slog.String("peer", conn.RemoteAddr().String()), slog.Any("error", err))
	}
	_ = conn.Close() // The client has failed, or the port is closed.
}

// handshake reads the first byte of a connection and completes the handshake of TLS.
func (l *Listener) handshake(conn net.Conn) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(openTimeout)); err != nil {
		return nil, err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return nil, err
	}
	opened := net.Conn(&peekedConn{Conn: conn, reader: io.MultiReader(bytes.NewReader(first), conn)})
	if first[0] == handshakeRecord {
		config, err := l.certificates.serverConfig()
		if err != nil {
			return nil, err
		}
		secure := tls.Server(opened, config)
		if err := secure.HandshakeContext(context.Background()); err != nil { // The deadline limits it.
			return nil, err
		}
		opened = secure
	}
	return opened, conn.SetDeadline(time.Time{})
}

// peekedConn is a connection whose first byte was read.
type peekedConn struct {
	net.Conn

	reader io.Reader
}

// Read implements net.Conn.
func (c *peekedConn) Read(into []byte) (int, error) { return c.reader.Read(into) }
