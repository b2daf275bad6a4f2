package envoy_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// road is an address that leads to another one: what a Service is to a proxy.
type road struct {
	at string

	mu    sync.Mutex
	to    string
	ends  []net.Conn
	users sync.WaitGroup
}

// openRoad opens one until the test ends.
func openRoad(t *testing.T, to string) *road {
	t.Helper()
	listener := listen(t)
	r := &road{at: listener.Addr().String(), to: to}
	r.users.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			r.users.Go(func() { r.pass(near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.leadTo("")
		r.users.Wait()
	})
	return r
}

// leadTo has it lead to another address: what goes through it is cut.
func (r *road) leadTo(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	for _, end := range r.ends {
		_ = end.Close()
	}
	r.ends = nil
}

// pass carries one connection.
func (r *road) pass(near net.Conn) {
	defer near.Close()
	r.mu.Lock()
	far, err := net.Dial("tcp", r.to) //nolint:noctx // It is of this machine.
	if err != nil {
		r.mu.Unlock()
		return
	}
	r.ends = append(r.ends, near, far)
	r.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// counted counts what is read of a body.
type counted struct {
	io.Reader

	sent atomic.Int64
	last int64
	same int
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.sent.Add(int64(n))
	return n, err
}

// standsStill says that nothing was read since some looks.
func (c *counted) standsStill() bool {
	if now := c.sent.Load(); now != c.last {
		c.last, c.same = now, 0
		return false
	}
	c.same++
	return c.last > 0 && c.same > 20
}
