// Package forward forwards TCP connections from a listener to an address that only exists in another network namespace.
// A listener keeps the namespace in which it was opened. So a process inside the cluster can accept connections of the
// host without any route, bridge or firewall rule there.
package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds the connection to the target. It is longer than any client's timeout, so that the client
	// decides how long it waits.
	dialTimeout = time.Minute
	// acceptPause is the pause of a listener after the process has run out of file descriptors: other connections end
	// meanwhile.
	acceptPause = 50 * time.Millisecond
)

// Dial connects to the target.
type Dial func(ctx context.Context) (net.Conn, error)

// Serve accepts connections and copies bytes in both directions until the context ends. It closes a connection if its
// target is unreachable.
func Serve(ctx context.Context, listener net.Listener, dial Dial) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		client, err := listener.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED):
			// Too many connections, or a connection that was closed already: no reason to stop the cluster.
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		default:
			return err
		}
		connections.Go(func() { forward(ctx, client, dial) })
	}
}

func forward(ctx context.Context, client net.Conn, dial Dial) {
	defer client.Close()
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	target, err := dial(dialCtx)
	cancel()
	if err != nil {
		return // the client sees its connection closed; there is no one to report to
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = target.Close() })
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() { copyHalf(target, client) })
	copies.Go(func() { copyHalf(client, target) })
	copies.Wait()
}

// copyHalf copies one direction and forwards the end of the stream.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		// A reset on one side must not look like an orderly end on the other.
		_ = to.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
