package xds

import (
	"context"
	"sync"
	"time"
)

const (
	// joinsAtOnce is how many proxies of large fleets join at a time: what a proxy brings along, and what it
	// is sent first, takes much memory for a moment.
	joinsAtOnce = 4
	// joinPatience is how long a proxy that makes no progress keeps others waiting.
	joinPatience = 2 * time.Second
	// largeFleet is from how many resources on a fleet is large, those of 1000 applications in a canary.
	largeFleet = 5000
)

// admit waits for the turn of a new stream of a fleet, and returns what ends it. Nothing is read from the
// stream before, so that the proxy's own transport keeps what it has to say.
func (s *Server) admit(ctx context.Context, f *fleet) (joined func()) {
	if now := f.current().snapshot; now == nil || now.count() < largeFleet {
		return func() {}
	}
	select {
	case s.joining <- struct{}{}:
		end := sync.OnceFunc(func() { <-s.joining })
		time.AfterFunc(joinPatience, end)
		return end
	case <-ctx.Done():
	case <-s.closed:
	}
	return func() {}
}

// hasJoined tells whether the proxy has answered its first scopes, which are the last that it asks for.
func (st *stream) hasJoined() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	sub := &st.session.subs[scopeKind]
	return sub.nonce != "" && len(sub.pending) == 0
}

// count is how many resources there are.
func (s *snapshot) count() int {
	count := 0
	for _, each := range s.resources {
		for range each.all() {
			count++
		}
	}
	return count
}
