package xds

import (
	"context"
	"sync"
	"time"
)

const (
	// maxJoining is how many proxies of large fleets join at a time. The first requests of a proxy and the responses to
	// them need much memory.
	maxJoining = 4
	// joinTimeout is how long a proxy that makes no progress delays others.
	joinTimeout = 2 * time.Second
	// largeFleet is the number of resources from which on a fleet is large: those of 1000 applications in a canary.
	largeFleet = 5000
)

// admit waits until a new stream of a fleet may join. The caller must call joined when it has. The server reads nothing
// from the stream before, so that requests wait in the proxy's transport.
func (s *Server) admit(ctx context.Context, f *fleet) (joined func()) {
	if snapshot := f.current().snapshot; snapshot == nil || snapshot.Count() < largeFleet {
		return func() {}
	}
	select {
	case s.joining <- struct{}{}:
		release := sync.OnceFunc(func() { <-s.joining })
		time.AfterFunc(joinTimeout, release)
		return release
	case <-ctx.Done():
	case <-s.closed:
	}
	return func() {}
}

// hasJoined reports whether the proxy has answered its first scopes.
func (st *stream) hasJoined() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.HasJoined()
}
