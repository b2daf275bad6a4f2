package extauthz

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
)

// Opened takes in the stream of a proxy. Of several, the latest counts.
func (s *Server) Opened(proxy netip.Addr, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := append(slices.Clip(s.streams[proxy]), stream)
	slices.SortFunc(own, func(a, b Stream) int { return cmp.Compare(a.Number(), b.Number()) })
	s.streams[proxy] = own
	close(s.opened)
	s.opened = make(chan struct{})
}

// Closed forgets a stream. The calls of a proxy that has none any more end: it may be served by
// another replica, to which it will make them again.
func (s *Server) Closed(proxy netip.Addr, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(s.streams[proxy]), func(each Stream) bool {
		return each.Number() == stream.Number()
	})
	if len(rest) > 0 {
		s.streams[proxy] = rest
		return
	}
	delete(s.streams, proxy)
	for _, ticket := range s.room.RemoveProxy(proxy) {
		s.tell(ticket, outcome{isLost: true})
	}
}

// Confirmed says that a proxy has confirmed endpoints: who waits for them goes on.
func (s *Server) Confirmed(proxy netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(proxy)
}

// release lets those go on who wait at a proxy for what it serves, as many as its pace allows. The caller holds the lock.
func (s *Server) release(proxy netip.Addr) {
	pace := s.paces[proxy]
	if pace == nil {
		pace = new(proxyPace)
	}
	if own := s.streams[proxy]; len(own) > 0 {
		released := s.room.Release(proxy, own[len(own)-1].Serves, pace.Room())
		for _, ticket := range released {
			s.tell(ticket, outcome{goesOn: true})
		}
		pace.Take(len(released))
	}
	switch {
	case pace.HasRested():
		delete(s.paces, proxy)
	case pace.due == nil:
		pace.due = time.AfterFunc(holding.PacePause, func() { s.recover(proxy, pace) })
		s.paces[proxy] = pace
	}
}

// recover lets more go on after a pause.
func (s *Server) recover(proxy netip.Addr, pace *proxyPace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pace.due = nil
	pace.Recover()
	s.release(proxy)
}

// streamOf is the stream of a proxy, and waits for it if need be. The error is a status.
func (s *Server) streamOf(ctx context.Context, proxy netip.Addr) (Stream, error) {
	patience := time.NewTimer(streamPatience)
	defer patience.Stop()
	for {
		s.mu.Lock()
		own, opened := s.streams[proxy], s.opened
		s.mu.Unlock()
		ready := s.known // The apps are known before the first stream.
		if len(own) > 0 {
			opened = nil
		} else {
			ready = nil
		}
		select {
		case <-ready:
			return own[len(own)-1], nil
		case <-opened:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return nil, errStopping()
		case <-patience.C:
			return nil, errElsewhere()
		}
	}
}

// errElsewhere is the status of a call whose proxy has no stream here, and errStopping that of one to a server
// that was closed. Both are made again.
func errElsewhere() error {
	return status.Error(codes.Unavailable, "the proxy gets its configuration from another replica")
}

func errStopping() error {
	return status.Error(codes.Unavailable, "the interceptor is shutting down")
}
