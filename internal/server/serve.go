package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of the HTTP servers of this package. Requests are small and responses fast, except a CPU profile of 30 s,
// which writeTimeout allows.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// maxStreams limits the requests of one HTTP/2 connection, and receiveBuffer the bytes of their bodies that no
	// handler has read.
	maxStreams    = 64
	receiveBuffer = 64 << 10
	// maxFrame is the largest frame of HTTP/2 in bytes. Each connection keeps a buffer for one.
	maxFrame = 16 << 10
	// httpDrain is how long active requests can take when a server stops.
	httpDrain = 2 * time.Second
)

// ServeHTTP serves handler on listener until ctx ends, and returns after all active requests or httpDrain. It always
// closes listener. It logs the errors of single connections.
func ServeHTTP(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerConnection: receiveBuffer,
			MaxReceiveBufferPerStream:     receiveBuffer,
			MaxReadFrameSize:              maxFrame,
		},
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpDrain)
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		err = server.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
