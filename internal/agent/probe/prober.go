// Package probe detects by an idle TCP connection that the process of a proxy has exited.
//
// When an Envoy process exits, the kernel closes its connections and refuses new ones, so the prober detects the exit
// immediately. EndpointSlices show it one or two seconds later, after the kubelet has detected it.
//
// A closed connection alone does not prove an exit, because Envoy also closes idle connections and drains. The prober
// therefore connects again, and reports a proxy as gone after two refused attempts. If the prober was never able to
// connect to a proxy, for example because of a NetworkPolicy, it does not report that proxy. The agent then relies on
// the EndpointSlices alone.
package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds one connection attempt.
	dialTimeout = 2 * time.Second
	// confirmDelay is the delay before the second attempt after a refused one: a listener may be in the middle of
	// a replacement.
	confirmDelay = 20 * time.Millisecond
	// retryDelay is the delay before any other attempt. A connection that lasted at least that long is replaced
	// without delay.
	retryDelay = 250 * time.Millisecond
)

// Prober holds the connections. Create it with New.
type Prober struct {
	changed func(ctx context.Context, namespace string)
	dialer  net.Dialer

	mu          sync.Mutex // guards the following fields
	connections map[proxy]*connection
	changes     chan struct{} // has one element when connections must be opened or closed
}

// proxy identifies a proxy.
type proxy struct {
	namespace string
	addr      netip.AddrPort
}

// connection is the state of the connection to a proxy.
type connection struct {
	isWanted, isGone bool
	end              context.CancelFunc // closes the connection; nil until it is opened
}

// New returns a Prober without connections. changed is called when a proxy of a namespace becomes gone or
// available again, by the goroutine of its connection. It may block until ctx is canceled.
func New(changed func(ctx context.Context, namespace string)) *Prober {
	return &Prober{
		changed: changed, dialer: net.Dialer{Timeout: dialTimeout},
		connections: map[proxy]*connection{}, changes: make(chan struct{}, 1),
	}
}

// Watch replaces the set of watched proxies of a namespace, and returns those that are gone.
func (p *Prober) Watch(namespace string, proxies []netip.AddrPort) (gone []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, conn := range p.connections {
		conn.isWanted = conn.isWanted && key.namespace != namespace
	}
	for _, at := range proxies {
		key := proxy{namespace, at}
		if p.connections[key] == nil {
			p.connections[key] = new(connection)
		}
		p.connections[key].isWanted = true
		if p.connections[key].isGone {
			gone = append(gone, at)
		}
	}
	select {
	case p.changes <- struct{}{}:
	default:
	}
	return gone
}

// Start opens and closes connections as Watch requests until ctx is canceled. Call it once. It returns nil after
// all connections are closed.
func (p *Prober) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changes:
			p.update(ctx, group.Go)
		}
	}
}

// update opens and closes the connections that Watch requested.
func (p *Prober) update(ctx context.Context, run func(func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, conn := range p.connections {
		switch {
		case conn.isWanted && conn.end == nil:
			connCtx, end := context.WithCancel(ctx)
			conn.end = end
			run(func() { p.run(connCtx, key) })
		case !conn.isWanted:
			if conn.end != nil {
				conn.end()
			}
			delete(p.connections, key)
		}
	}
}

// run keeps the connection to one proxy until ctx is canceled.
func (p *Prober) run(ctx context.Context, to proxy) {
	wasConnected, refused := false, 0
	for ctx.Err() == nil {
		pause := retryDelay
		conn, err := p.dialer.DialContext(ctx, "tcp", to.addr.String())
		switch {
		case err == nil:
			wasConnected, refused = true, 0
			p.setGone(ctx, to, false)
			if waitForClose(ctx, conn) >= retryDelay {
				pause = 0
			}
		case wasConnected && errors.Is(err, syscall.ECONNREFUSED):
			if refused++; refused == 1 {
				pause = confirmDelay
			} else {
				p.setGone(ctx, to, true)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// waitForClose returns how long a connection lasted. It closes the connection when ctx is canceled.
func waitForClose(ctx context.Context, conn net.Conn) time.Duration {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // an error changes nothing
	_, _ = io.Copy(io.Discard, conn)                            // discards unexpected data; any error means closed
	stop()
	_ = conn.Close()
	return time.Since(began)
}

// setGone sets the state of a proxy, and calls changed if it is new.
func (p *Prober) setGone(ctx context.Context, key proxy, isGone bool) {
	p.mu.Lock()
	conn := p.connections[key]
	isChanged := ctx.Err() == nil && conn != nil && conn.isGone != isGone
	if isChanged {
		conn.isGone = isGone
	}
	p.mu.Unlock()
	if isChanged {
		p.changed(ctx, key.namespace)
	}
}
