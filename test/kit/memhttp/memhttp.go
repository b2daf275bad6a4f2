// Package memhttp serves HTTP in memory. A server in a testing/synctest bubble needs it: the clock of a bubble stands
// still while a goroutine waits for the network.
package memhttp

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Server returns a server for HTTP/1.1 and for HTTP/2 without TLS, the protocols of kedify-proxy.
func Server(handler http.HandlerFunc) *http.Server {
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)} //nolint:gosec // only tests connect
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// Serve runs a server until the end of the test and returns the function that connects to it, whatever the address is.
func Serve(tb testing.TB, server *http.Server) func(ctx context.Context, network, address string) (net.Conn, error) {
	tb.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = server.Serve(l) }() // it returns an error when it is closed
	tb.Cleanup(func() { _ = server.Close() })
	return l.dial
}

// listener accepts one end of each pipe whose other end dial returns. The listener of
// google.golang.org/grpc/test/bufconn is not used: a read deadline of its connections may take effect after it was
// removed.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }
