package coldstart

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// serviceForwarder plays the interceptor's Service: it forwards each port of its address to the same port of one
// replica. A connection stays with the replica to which it was opened. In the network of package netspace all
// connections have the same source address, with and without the forwarder.
type serviceForwarder struct {
	listeners []net.Listener

	mu      sync.Mutex
	target  string
	clients map[net.Conn]struct{}
}

// listenService listens on ports of an address. There is no target yet.
func listenService(ctx context.Context, address string, ports ...string) (*serviceForwarder, error) {
	r := &serviceForwarder{clients: map[net.Conn]struct{}{}}
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

// close closes the listeners.
func (r *serviceForwarder) close() error {
	var errs error
	for _, listener := range r.listeners {
		errs = errors.Join(errs, listener.Close())
	}
	return errs
}

// setTarget forwards new connections to an address.
func (r *serviceForwarder) setTarget(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = address
}

// disconnect closes all connections.
func (r *serviceForwarder) disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client := range r.clients {
		_ = client.Close()
	}
}

// serve accepts connections until the listener is closed.
func (r *serviceForwarder) serve(ctx context.Context, listener net.Listener, port string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go r.forward(ctx, client, port)
	}
}

// forward forwards one connection.
func (r *serviceForwarder) forward(ctx context.Context, client net.Conn, port string) {
	defer client.Close()
	r.mu.Lock()
	target := r.target
	r.clients[client] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.clients, client)
	}()
	backend, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(target, port))
	if err != nil {
		return
	}
	defer backend.Close()
	var responses sync.WaitGroup
	responses.Go(func() {
		_, _ = io.Copy(client, backend)
		_ = client.Close()
	})
	_, _ = io.Copy(backend, client)
	_ = backend.Close()
	responses.Wait()
}
