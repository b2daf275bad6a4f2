package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// ConnectionLimits limit the open connections of a port, so that its clients cannot use all memory.
type ConnectionLimits struct {
	// Total is the maximum number of connections, and PerAddress that of the connections of one IP address.
	Total, PerAddress int
}

// DefaultConnectionLimits are the limits of ports with few clients: the kubelet, Prometheus, the API server, KEDA, or
// the replicas of another component.
func DefaultConnectionLimits() ConnectionLimits {
	return ConnectionLimits{Total: 1024, PerAddress: 128}
}

// LimitConnections returns a listener that closes connections above limits immediately. If Total is reached, a new
// connection replaces the newest connection of the address that has the most, unless its own address has as many: a few
// clients with many connections cannot lock out others. It logs the addresses whose connections it closes as warnings,
// each at most once a minute.
func LimitConnections(listener net.Listener, limits ConnectionLimits, logger *slog.Logger) net.Listener {
	return &limitedListener{
		Listener: listener, limits: limits, logger: logger, open: map[netip.Addr][]*limitedConn{},
	}
}

// limitedListener implements LimitConnections.
type limitedListener struct {
	net.Listener

	limits   ConnectionLimits
	logger   *slog.Logger
	rejected PeerLog

	mu    sync.Mutex // guards the fields below
	open  map[netip.Addr][]*limitedConn
	total int
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn

	from     *limitedListener
	address  netip.Addr
	isClosed bool // guarded by the lock of from
}

// Accept returns the next connection that the limits allow.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _ := PeerAddress(conn.RemoteAddr().String())
		limited := &limitedConn{Conn: conn, from: l, address: address}
		surplus := l.add(limited)
		if surplus != nil {
			l.log(surplus.address)
			_ = surplus.Close() // The peer receives the end of the connection, or has closed it.
		}
		if surplus != limited {
			return limited, nil
		}
	}
}

// add counts a connection. It returns the connection to close because of the limits, nil for none.
func (l *limitedListener) add(conn *limitedConn) (surplus *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := len(l.open[conn.address])
	switch {
	case own >= l.limits.PerAddress:
		conn.isClosed = true // It does not count.
		return conn
	case l.total >= l.limits.Total:
		most := l.most()
		if len(most) <= own+1 {
			conn.isClosed = true
			return conn
		}
		surplus = most[len(most)-1]
		l.remove(surplus)
	}
	l.open[conn.address] = append(l.open[conn.address], conn)
	l.total++
	return surplus
}

// most returns the connections of the address that has the most. The caller holds the lock.
func (l *limitedListener) most() (most []*limitedConn) {
	for _, conns := range l.open {
		if len(conns) > len(most) {
			most = conns
		}
	}
	return most
}

// remove removes a connection from those that count. The caller holds the lock.
func (l *limitedListener) remove(conn *limitedConn) {
	if conn.isClosed {
		return
	}
	conn.isClosed = true
	l.total--
	remaining := slices.DeleteFunc(l.open[conn.address], func(other *limitedConn) bool { return other == conn })
	if l.open[conn.address] = remaining; len(remaining) == 0 {
		delete(l.open, conn.address)
	}
}

// log logs that a connection of an address is closed.
func (l *limitedListener) log(address netip.Addr) {
	const reason = "too many connections"
	l.logger.Log(context.Background(), l.rejected.Level(address, reason), "connection closed",
		slog.String("port", l.Addr().String()), slog.String("peer", address.String()), slog.String("reason", reason),
		slog.Int("maxTotal", l.limits.Total), slog.Int("maxPerAddress", l.limits.PerAddress))
}

// Close closes the connection, which then no longer counts.
func (c *limitedConn) Close() error {
	c.from.mu.Lock()
	c.from.remove(c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}
