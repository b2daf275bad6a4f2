package envoy_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// forwarder is an address that leads to another one: what a Service is to a proxy.
type forwarder struct {
	address string

	mu          sync.Mutex
	target      string
	connections []net.Conn
	goroutines  sync.WaitGroup
}

// startForwarder opens one until the test ends.
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

// setTarget has it lead to another address: what goes through it is cut.
func (r *forwarder) setTarget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for _, connection := range r.connections {
		_ = connection.Close()
	}
	r.connections = nil
}

// forward carries one connection.
func (r *forwarder) forward(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	backend, err := net.Dial("tcp", r.target) //nolint:noctx // It is of this machine.
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

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// countingReader counts what is read of a body.
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

// isStalled says that nothing was read since some looks.
func (c *countingReader) isStalled() bool {
	if read := c.read.Load(); read != c.last {
		c.last, c.unchanged = read, 0
		return false
	}
	c.unchanged++
	return c.last > 0 && c.unchanged > 20
}
