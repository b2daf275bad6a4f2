// Package probe keeps a TCP connection to each proxy, over which nothing is sent, to know of a proxy's sudden end when the kernel of its node does.
//
// When Envoy is killed its connections end, and new ones are refused. Kubernetes says so a second or two later: the kubelet has to look, and the endpoints
// have to follow. With a connection that is open anyway the end is known at once. What ends a connection is no proof, though (Envoy closes idle ones, and
// drains), so a new one is made; only where that is refused, twice, is the proxy gone. Where a connection could never be made, by a NetworkPolicy say, nothing
// is known, and what endpoints tell has to do.
package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// dialLimit bounds the making of one connection.
	dialLimit = 2 * time.Second
	// confirmAfter is when a refused connection is tried a second time: a listener may be in the act of being replaced.
	confirmAfter = 20 * time.Millisecond
	// retryAfter is the pause before any other try, and how long a connection has to have lasted to be made again without one.
	retryAfter = 250 * time.Millisecond
)

// Keeper keeps the connections. Make it with New.
type Keeper struct {
	changed func(ctx context.Context, namespace string)
	dialer  net.Dialer

	mu     sync.Mutex // guards what follows
	kept   map[target]*contact
	wanted chan struct{} // holds one element when contacts are to begin or to end
}

// target is a proxy.
type target struct {
	namespace string
	at        netip.AddrPort
}

// contact is what is known of a proxy.
type contact struct {
	isWanted, isGone bool
	end              context.CancelFunc // nil until it has begun
}

// New returns a Keeper without connections. changed is called when a proxy of a namespace is gone, or there again, by the goroutine that keeps its connection.
// It may block until ctx ends.
func New(changed func(ctx context.Context, namespace string)) *Keeper {
	return &Keeper{changed: changed, dialer: net.Dialer{Timeout: dialLimit}, kept: map[target]*contact{}, wanted: make(chan struct{}, 1)}
}

// Keep keeps connections to the proxies of a namespace, and to none of its other ones any more, and returns those among them that are gone.
func (k *Keeper) Keep(namespace string, proxies []netip.AddrPort) (gone []netip.AddrPort) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, is := range k.kept {
		is.isWanted = is.isWanted && of.namespace != namespace
	}
	for _, at := range proxies {
		of := target{namespace, at}
		if k.kept[of] == nil {
			k.kept[of] = new(contact)
		}
		k.kept[of].isWanted = true
		if k.kept[of].isGone {
			gone = append(gone, at)
		}
	}
	select {
	case k.wanted <- struct{}{}:
	default:
	}
	return gone
}

// Start makes and ends connections as Keep asks for them, until ctx ends. It is called once, and returns nil after all have ended.
func (k *Keeper) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wanted:
			k.follow(ctx, group.Go)
		}
	}
}

// follow begins and ends what Keep has asked for.
func (k *Keeper) follow(ctx context.Context, run func(func())) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, is := range k.kept {
		switch {
		case is.isWanted && is.end == nil:
			one, end := context.WithCancel(ctx)
			is.end = end
			run(func() { k.keep(one, of) })
		case !is.isWanted:
			if is.end != nil {
				is.end()
			}
			delete(k.kept, of)
		}
	}
}

// keep keeps the connection to one proxy until ctx ends.
func (k *Keeper) keep(ctx context.Context, to target) {
	wasThere, refused := false, 0
	for ctx.Err() == nil {
		pause := retryAfter
		conn, err := k.dialer.DialContext(ctx, "tcp", to.at.String())
		switch {
		case err == nil:
			wasThere, refused = true, 0
			k.set(ctx, to, false)
			if lasts(ctx, conn) >= retryAfter {
				pause = 0
			}
		case wasThere && errors.Is(err, syscall.ECONNREFUSED):
			if refused++; refused == 1 {
				pause = confirmAfter
			} else {
				k.set(ctx, to, true)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// lasts returns how long a connection lasts, and closes it when ctx ends.
func lasts(ctx context.Context, conn net.Conn) time.Duration {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // Its end is what is wanted.
	_, _ = io.Copy(io.Discard, conn)                            // However it ends, and whatever a proxy says unasked.
	stop()
	_ = conn.Close()
	return time.Since(began)
}

// set says whether a proxy is gone, and tells so if that is news.
func (k *Keeper) set(ctx context.Context, of target, isGone bool) {
	k.mu.Lock()
	is := k.kept[of]
	isNews := ctx.Err() == nil && is != nil && is.isGone != isGone
	if isNews {
		is.isGone = isGone
	}
	k.mu.Unlock()
	if isNews {
		k.changed(ctx, of.namespace)
	}
}
