package main

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// relayAddresses are the source addresses of the proxies that a relay simulates.
func relayAddresses() []netip.Addr {
	var all []netip.Addr
	next := netspace.Address()
	for range 100 {
		next = next.Next()
		all = append(all, next)
	}
	return all
}

// relay forwards connections to a server, each from another one of relayAddresses, until it cuts them.
type relay struct {
	at, to   netip.AddrPort
	listener net.Listener

	mu   sync.Mutex
	from int // of relayAddresses, rising
	open map[net.Conn]struct{}
}

// startRelay starts a relay at the same address as the server.
func startRelay(ctx context.Context, to netip.AddrPort) (*relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(to.Addr(), 0).String())
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	r := &relay{at: at, to: to, listener: listener, open: map[net.Conn]struct{}{}}
	go r.run(ctx)
	return r, nil
}

// run accepts connections until the listener is closed.
func (r *relay) run(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.forward(ctx, client)
	}
}

// forward forwards one connection in both directions until either side ends it.
func (r *relay) forward(ctx context.Context, client net.Conn) {
	from := relayAddresses()
	r.mu.Lock()
	r.from++
	source := from[r.from%len(from)]
	r.mu.Unlock()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	server, err := dialer.DialContext(ctx, "tcp", r.to.String())
	if err != nil {
		_ = client.Close() // The client reconnects.
		return
	}
	r.mu.Lock()
	r.open[client], r.open[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	var group sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		group.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // Its end is the connection's.
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	group.Wait()
	r.mu.Lock()
	delete(r.open, client)
	delete(r.open, server)
	r.mu.Unlock()
}

// closeAll closes all connections at once.
func (r *relay) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for connection := range r.open {
		_ = connection.Close() // Both copies end.
	}
}

// stop closes the listener and all connections.
func (r *relay) stop() {
	_ = r.listener.Close() // No client connects any more.
	r.closeAll()
}
