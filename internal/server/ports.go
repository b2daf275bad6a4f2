package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Port is a port that serves HTTP until shutdown.
type Port struct {
	// Name is the purpose of the port in logs and errors.
	Name string
	// Address is the address to listen on, host:port. Flag is the command line flag that sets it.
	Address, Flag string
	// Handler serves the requests.
	Handler http.Handler
	// TLS is the TLS configuration, nil for plain HTTP.
	TLS *tls.Config
	// Limits limit the connections; the zero value means DefaultConnectionLimits.
	Limits ConnectionLimits
}

// Open opens all ports or none, and returns the components that serve them. An error is a *ListenError.
func Open(ctx context.Context, logger *slog.Logger, ports ...Port) (components []Component, err error) {
	var opened []net.Listener
	defer func() {
		if err == nil {
			return
		}
		for _, listener := range opened {
			err = errors.Join(err, listener.Close())
		}
	}()
	for _, port := range ports {
		listener, err := Listen(ctx, port.Name, port.Address, port.Flag)
		if err != nil {
			return nil, err
		}
		listener = LimitConnections(listener, cmp.Or(port.Limits, DefaultConnectionLimits()), logger)
		opened = append(opened, listener)
		logger.InfoContext(ctx, "listening", "port", port.Name, "address", listener.Addr().String())
		if port.TLS != nil {
			listener = tls.NewListener(listener, port.TLS)
		}
		components = append(components, Component{Name: port.Name, Run: func(ctx context.Context) error {
			return ServeHTTP(ctx, listener, port.Handler, logger)
		}})
	}
	return components, nil
}

// callDrain is how long clients can take to close their streams when a server stops.
const callDrain = 5 * time.Second

// GRPCServer is the part of grpc.Server that ServeGRPC uses, so that programs without gRPC don't link it.
type GRPCServer interface {
	Serve(listener net.Listener) error
	GracefulStop()
	Stop()
}

// ServeGRPC serves purpose on listener until ctx ends. Then it calls end, which has to end the streams, waits for the
// active calls or callDrain, and closes listener.
func ServeGRPC(ctx context.Context, purpose string, listener net.Listener, server GRPCServer, end func()) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s on %s: %w", purpose, listener.Addr(), err)
	case <-ctx.Done():
	}
	end()
	timer := time.AfterFunc(callDrain, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s on %s: %w", purpose, listener.Addr(), err)
	}
	return nil
}
