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
	"time"
)

// dialTimeout bounds how long a connection may take to be made inside.
const dialTimeout = 5 * time.Second

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
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
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
