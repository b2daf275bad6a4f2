// Package forward leads TCP connections from a listener to an address that
// only exists in another network namespace. A listener keeps the namespace in
// which it was opened, so a process inside the cluster can accept connections
// of the host without any route, bridge or firewall rule there.
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
	// dialTimeout bounds how long a connection may take to be made inside. It is
	// longer than any client waits: how long is too long is for the client to say.
	dialTimeout = time.Minute
	// acceptPause is how long a listener rests when the process has no file left
	// for one more connection: others end meanwhile.
	acceptPause = 50 * time.Millisecond
)

// Dial connects to the target.
type Dial func(ctx context.Context) (net.Conn, error)

// Serve accepts connections and copies bytes both ways until the context ends.
// A connection whose target cannot be reached is closed.
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
			// Too many connections, or one that is gone already: no reason to end
			// the cluster.
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
		return // the client sees its connection closed: there is nobody to talk to
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = target.Close() })
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() { copyHalf(target, client) })
	copies.Go(func() { copyHalf(client, target) })
	copies.Wait()
}

// copyHalf copies one direction and passes the end of the stream on.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		// A reset on one side must not look like a clean end on the other.
		_ = to.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
