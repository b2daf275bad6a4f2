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
	// maxPending limits the connections of one known peer until then, so that it cannot use all memory.
	maxPending = 256
	// knownTimeout is how long a connection waits until its peer is known: a proxy may connect before the watch reports
	// its address. checkPause is the time between two looks.
	knownTimeout, checkPause = time.Second, 100 * time.Millisecond
	// maxUnknown limits the connections that wait for it, and maxUnknownPerPeer those of one peer.
	maxUnknown, maxUnknownPerPeer = 256, 8
)

// errUnknown is the error of a connection whose peer stays unknown.
var errUnknown = errors.New("no fleet has a proxy with this address, and no replica of the interceptor has it")

// Options are the settings of a Listener. The zero value accepts plaintext connections of all peers.
type Options struct {
	// Certificates are those of the interceptor; nil means connections without TLS only.
	Certificates *Certificates
	// IsKnown reports whether an address may connect. It must be fast. nil means that all may.
	IsKnown func(peer netip.Addr) bool
	// Hint is the fix for a proxy with an unknown address, in the log.
	Hint string
	// Logger logs connections that are rejected.
	Logger *slog.Logger
}

// Listener returns connections of known peers, of both kinds: a [*tls.Conn] after its handshake, or one without TLS.
//
// Nothing is read from an unknown peer, so it costs a socket for a second. A client that sends nothing, or whose
// handshake fails, delays no other one and is disconnected after 10 s. A peer with 256 such connections gets no other
// one. Make it with Listen.
type Listener struct {
	net.Listener

	options  Options
	accepted chan net.Conn
	failed   chan error
	closed   chan struct{}
	closing  sync.Once
	rejected server.PeerLog

	mu      sync.Mutex         // guards pending, perPeer and unknown
	pending map[net.Conn]bool  // connections that Accept has not returned, and whether their peers were unknown
	perPeer map[netip.Addr]int // pending connections
	unknown int                // pending connections of unknown peers
	running sync.WaitGroup
}

// Listen accepts the connections of a listener. The caller must close the result.
func Listen(from net.Listener, options Options) *Listener {
	if options.IsKnown == nil {
		options.IsKnown = func(netip.Addr) bool { return true }
	}
	l := &Listener{
		Listener: from, options: options, accepted: make(chan net.Conn), failed: make(chan error, 1),
		closed: make(chan struct{}), pending: map[net.Conn]bool{}, perPeer: map[netip.Addr]int{},
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

// track adds a connection to those that Close closes. It returns false after Close, and if the peer, or all unknown
// peers together, have too many.
func (l *Listener) track(conn net.Conn) bool {
	peer := peerOf(conn)
	isUnknown, limit := !l.options.IsKnown(peer), maxPending
	if isUnknown {
		limit = maxUnknownPerPeer
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	if l.perPeer[peer] >= limit || isUnknown && l.unknown >= maxUnknown {
		return false
	}
	l.pending[conn] = isUnknown
	l.perPeer[peer]++
	if isUnknown {
		l.unknown++
	}
	return true
}

// untrack removes a connection that track has added.
func (l *Listener) untrack(conn net.Conn) {
	peer := peerOf(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[conn] {
		l.unknown--
	}
	delete(l.pending, conn)
	if l.perPeer[peer]--; l.perPeer[peer] == 0 {
		delete(l.perPeer, peer)
	}
}

// open delivers a connection once its peer and its kind are known.
func (l *Listener) open(conn net.Conn) {
	opened, err := conn, l.awaitKnown(conn)
	if err == nil && l.options.Certificates != nil {
		opened, err = l.handshake(conn)
	}
	l.untrack(conn)
	if err == nil {
		select {
		case l.accepted <- opened:
			return
		case <-l.closed:
		}
	} else {
		l.log(conn, err)
	}
	_ = conn.Close() // The peer is unknown, the client has failed, or the port is closed.
}

// awaitKnown waits until the peer of a connection is known.
func (l *Listener) awaitKnown(conn net.Conn) error {
	peer := peerOf(conn)
	if l.options.IsKnown(peer) {
		return nil
	}
	timeout, pause := time.NewTimer(knownTimeout), time.NewTicker(checkPause)
	defer timeout.Stop()
	defer pause.Stop()
	for !l.options.IsKnown(peer) {
		select {
		case <-l.closed:
			return net.ErrClosed
		case <-timeout.C:
			return errUnknown
		case <-pause.C:
		}
	}
	return nil
}

// log logs why a connection is rejected.
func (l *Listener) log(conn net.Conn, err error) {
	if !errors.Is(err, errUnknown) {
		l.options.Logger.Debug("connection rejected", slog.String("peer", conn.RemoteAddr().String()),
			slog.Any("error", err))
		return
	}
	reason := err.Error()
	if l.options.Hint != "" {
		reason += "; " + l.options.Hint
	}
	l.options.Logger.Log(context.Background(), l.rejected.Level(peerOf(conn), reason), "proxy rejected",
		slog.String("port", l.Addr().String()), slog.String("peer", conn.RemoteAddr().String()),
		slog.String("reason", reason))
}

// peerOf returns the address of the peer of a connection.
func peerOf(conn net.Conn) netip.Addr {
	address, _ := server.PeerAddress(conn.RemoteAddr().String())
	return address
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
		config, err := l.options.Certificates.serverConfig()
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
