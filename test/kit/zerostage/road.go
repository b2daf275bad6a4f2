package zerostage

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// road is the Service of the interceptor: an address of which each port leads to the same one of a replica. A connection keeps the replica that it has begun
// with. In the network of package netspace all connections come from one address, the proxy's straight ones too.
type road struct {
	listeners []net.Listener

	mu sync.Mutex
	to string
}

// openRoad opens ports of an address. The road leads nowhere yet.
func openRoad(ctx context.Context, address string, ports ...string) (*road, error) {
	r := new(road)
	for _, port := range ports {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, port))
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.listeners = append(r.listeners, listener)
		go r.serve(ctx, listener, port)
	}
	return r, nil
}

// close closes it.
func (r *road) close() error {
	var errs error
	for _, listener := range r.listeners {
		errs = errors.Join(errs, listener.Close())
	}
	return errs
}

// leadTo has new connections go to an address.
func (r *road) leadTo(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = address
}

// serve takes connections until the listener is closed.
func (r *road) serve(ctx context.Context, listener net.Listener, port string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go r.pass(ctx, near, port)
	}
}

// pass carries one connection.
func (r *road) pass(ctx context.Context, near net.Conn, port string) {
	defer near.Close()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(to, port))
	if err != nil {
		return
	}
	defer far.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}
