// Package relay forwards TCP connections to an address, until a test partitions the two sides.
package relay

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Relay forwards connections. While it is partitioned, no byte passes in either direction, and no connection ends: the
// sides notice nothing but silence. Bytes of that time are delivered afterwards, as after a retransmission.
type Relay struct {
	// Address is where the Relay listens.
	Address string

	target string
	mu     sync.Mutex
	passes chan struct{} // closed while bytes pass
}

// Start starts a Relay to an address. It ends with the test.
func Start(tb testing.TB, target string) *Relay {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &Relay{Address: listener.Addr().String(), target: target, passes: make(chan struct{})}
	close(r.passes)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var connections sync.WaitGroup
	tb.Cleanup(connections.Wait)
	tb.Cleanup(func() {
		cancel()
		_ = listener.Close()
	})
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { r.forward(ctx, conn) })
		}
	})
	return r
}

// Partition stops all traffic until Heal.
func (r *Relay) Partition() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.passes:
		r.passes = make(chan struct{})
	default: // It is partitioned already.
	}
}

// Heal ends a partition.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.passes: // There is no partition.
	default:
		close(r.passes)
	}
}

// wait waits for the end of a partition. It reports false if ctx ends first.
func (r *Relay) wait(ctx context.Context) bool {
	r.mu.Lock()
	passes := r.passes
	r.mu.Unlock()
	select {
	case <-passes:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// forward forwards one connection, until a side closes it or ctx ends.
func (r *Relay) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	if !r.wait(ctx) {
		return
	}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		return
	}
	end := sync.OnceFunc(func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer end()
	defer context.AfterFunc(ctx, end)()
	var responses sync.WaitGroup
	responses.Go(func() {
		defer end()
		r.pass(ctx, client, server)
	})
	r.pass(ctx, server, client)
	end()
	responses.Wait()
}

// pass copies bytes, none of them during a partition.
func (r *Relay) pass(ctx context.Context, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if !r.wait(ctx) {
			return
		}
		if _, writeErr := to.Write(buffer[:count]); writeErr != nil || err != nil {
			return
		}
	}
}
