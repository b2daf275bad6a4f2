package envoy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

const (
	// statusConnections is how many connections the bootstrap allows the clients with one hash of their addresses. chains
	// is the number of hashes.
	statusConnections, chains = 512, 8
	// floodMemory limits the growth of Envoy's allocated memory, in bytes.
	floodMemory = 64 << 20
	// statusBurst is how many requests for statistics are answered at once.
	statusBurst = 50
)

// memory returns the memory that Envoy has allocated, in bytes.
func (n *node) memory(t *testing.T) int {
	t.Helper()
	return n.stat(t, "server.memory_allocated")
}

// statusAt returns the address of the port for statistics.
func (n *node) statusAt() string { return netip.AddrPortFrom(n.served[0], statusPort).String() }

// visitDuring sends requests to the app, one after the other, until stop is called, which returns how many were served.
// None may fail.
func (n *node) visitDuring(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan int)
	client := dial(t, n.client())
	go func() {
		count := 0
		for ; ctx.Err() == nil; count++ {
			if got := client.get(); got.err != nil || got.status != http.StatusOK {
				t.Errorf("request %d: %+v", count, got)
				break
			}
		}
		served <- count
	}()
	return func() int {
		cancel()
		return <-served
	}
}

// from returns a dialer that connects from an address.
func from(address netip.Addr) *net.Dialer {
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0))}
}

// source returns one of the addresses of the network, which are those of Pods.
func source(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}) }

// readyFrom reports whether a client with an address receives the answer to a probe.
func (n *node) readyFrom(t *testing.T, address netip.Addr) bool {
	t.Helper()
	client := dialBy(t, from(address), n.statusAt())
	defer client.Close()
	if err := client.write("GET /ready HTTP/1.1", "Host: proxy"); err != nil {
		return false
	}
	return client.read(http.MethodGet).status == http.StatusOK
}

// flood opens connections to the port for statistics from sources in turn, and returns how many stay open, at most limit.
// They are closed by the returned function. Each of them succeeds at first, as the probes of the kubelet that only
// connect.
func (n *node) flood(t *testing.T, count, limit int, sources ...netip.Addr) (open int, end func()) {
	t.Helper()
	connections := make([]net.Conn, 0, count)
	for i := range count {
		connection, err := from(sources[i%len(sources)]).DialContext(await.Context(t), "tcp", n.statusAt())
		if err != nil {
			t.Fatalf("connection %d: a probe would fail: %v", i, err)
		}
		connections = append(connections, connection)
	}
	isOpen := func(connection net.Conn) bool {
		raw, err := connection.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var result error
		err = raw.Read(func(file uintptr) bool {
			_, _, result = syscall.Recvfrom(int(file), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return true
		})
		return err == nil && errors.Is(result, syscall.EAGAIN)
	}
	await.Described(t, "connections above the limit are closed", func() bool {
		open = 0
		for _, connection := range connections {
			if isOpen(connection) {
				open++
			}
		}
		return open <= limit
	}, func() string { return fmt.Sprintf("%d are open, limit %d", open, limit) })
	return open, func() {
		for _, connection := range connections {
			_ = connection.Close()
		}
	}
}

// TestFloodOfStatusPort opens many connections to the port for statistics, from one address and from many. Few stay
// open, and the app is served. One source leaves most other clients alone. Afterwards all are answered again.
func TestFloodOfStatusPort(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4))
	n.check(t, n.served[0])
	many := make([]netip.Addr, 0, 100)
	for i := range cap(many) {
		many = append(many, source(i))
	}
	clients := many[1:33]
	ready := func() (count int) {
		for _, client := range clients {
			if n.readyFrom(t, client) {
				count++
			}
		}
		return count
	}
	for _, test := range []struct {
		name                  string
		sources               []netip.Addr
		count, limit, atLeast int
	}{
		{"one source", many[:1], 3000, statusConnections, len(clients) / 2},
		{"many sources", many, 6000, chains * statusConnections, 0},
	} {
		before, stop := n.memory(t), n.visitDuring(t)
		open, end := n.flood(t, test.count, test.limit, test.sources...)
		growth, answered := n.memory(t)-before, ready()
		served := stop()
		if open == 0 || growth > floodMemory || answered < test.atLeast {
			t.Errorf("%s: %d connections are open, the memory grew by %d KiB, %d of %d clients were answered, want %d", test.name,
				open, growth>>10, answered, len(clients), test.atLeast)
		}
		t.Logf("%s: %d of %d connections are open, %d KiB, %d of %d clients were answered, %d requests were served", test.name,
			open, test.count, growth>>10, answered, len(clients), served)
		end()
		await.True(t, "a client of the flood is answered again", func() bool { return n.readyFrom(t, test.sources[0]) })
	}
}

// TestFloodOfStatistics requests statistics as fast as possible: above a rate, Envoy answers without computing them.
func TestFloodOfStatistics(t *testing.T) {
	t.Parallel()
	if !netspace.Isolate(t, netspace.IPv4) {
		return
	}
	n := startNode(t, addressesOf(netspace.IPv4))
	n.check(t, n.served[0])
	stop := n.visitDuring(t)
	before := n.stat(t, statusRequests)
	var limited int
	client := dial(t, n.statusAt())
	for range 10 * statusBurst {
		if err := client.write("GET /stats/prometheus HTTP/1.1", "Host: proxy"); err != nil {
			t.Fatal(err)
		}
		switch got := client.read(http.MethodGet); {
		case got.err != nil:
			t.Fatal(got.err)
		case got.status == http.StatusTooManyRequests:
			limited++
		case got.status != http.StatusOK || !strings.Contains(got.body, "envoy_cluster"):
			t.Fatalf("%+v", got)
		}
	}
	if computed := n.stat(t, statusRequests) - before; limited == 0 || computed+limited != 10*statusBurst {
		t.Errorf("%d of %d requests were computed, and %d were rejected", computed, 10*statusBurst, limited)
	}
	stop()
}
