package envoy_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// forwarder forwards the connections to its address to a target, as a Service does.
type forwarder struct {
	address string

	mu          sync.Mutex
	target      string
	connections []net.Conn
	goroutines  sync.WaitGroup
}

// startForwarder starts a forwarder that ends with the test.
func startForwarder(t *testing.T, target string) *forwarder {
	t.Helper()
	listener := listen(t)
	r := &forwarder{address: listener.Addr().String(), target: target}
	r.goroutines.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.goroutines.Go(func() { r.forward(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.setTarget("")
		r.goroutines.Wait()
	})
	return r
}

// setTarget changes the target and closes all connections.
func (r *forwarder) setTarget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for _, connection := range r.connections {
		_ = connection.Close()
	}
	r.connections = nil
}

// forward forwards one connection.
func (r *forwarder) forward(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	backend, err := net.Dial("tcp", r.target) //nolint:noctx // the target is on this machine
	if err != nil {
		r.mu.Unlock()
		return
	}
	r.connections = append(r.connections, client, backend)
	r.mu.Unlock()
	var responses sync.WaitGroup
	responses.Go(func() {
		_, _ = io.Copy(client, backend)
		_ = client.Close()
	})
	_, _ = io.Copy(backend, client)
	_ = backend.Close()
	responses.Wait()
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// countingReader counts the bytes that are read from a body.
type countingReader struct {
	io.Reader

	read      atomic.Int64
	last      int64
	unchanged int
}

func (c *countingReader) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.read.Add(int64(n))
	return n, err
}

// isStalled reports whether several calls saw the same count.
func (c *countingReader) isStalled() bool {
	if read := c.read.Load(); read != c.last {
		c.last, c.unchanged = read, 0
		return false
	}
	c.unchanged++
	return c.last > 0 && c.unchanged > 20
}
