// Package port keeps a port across restarts of the server on it.
package port

import (
	"net"
	"testing"
)

// Port is a port of this machine that listens until the test ends. While no server is on it, connections wait.
type Port struct{ listener *net.TCPListener }

// Open opens a free port.
func Open(tb testing.TB) *Port {
	tb.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	return &Port{listener}
}

// Address returns host:port.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Listen returns a listener for one server. The port stays open when the server closes the listener.
func (p *Port) Listen(tb testing.TB) net.Listener {
	tb.Helper()
	file, err := p.listener.File()
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		tb.Fatal(err)
	}
	return listener
}
