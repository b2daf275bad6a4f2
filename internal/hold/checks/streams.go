package checks

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	for _, cluster := range s.room.ClustersAt(proxy) {
		lost, _ := s.room.Release(proxy, cluster, math.MaxInt)
		for _, ticket := range lost {
			s.tell(ticket, outcome{isLost: true})
		}
	}
}

// Confirmed says that a proxy has confirmed endpoints: who waits for them goes on.
func (s *Server) Confirmed(proxy netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cluster := range s.room.ClustersAt(proxy) {
		if _, isPausing := s.pauses[spot{proxy, cluster}]; !isPausing {
			s.release(proxy, cluster)
		}
	}
}

// release lets those go on who wait at a proxy for a cluster, some at a time, if it serves the cluster. The
// caller holds the lock.
func (s *Server) release(proxy netip.Addr, cluster string) {
	own := s.streams[proxy]
	if len(own) == 0 || !own[len(own)-1].Serves(cluster) {
		return
	}
	released, areMore := s.room.Release(proxy, cluster, releaseAtOnce)
	for _, ticket := range released {
		s.tell(ticket, outcome{goesOn: true})
	}
	if !areMore {
		return
	}
	at := spot{proxy, cluster}
	s.pauses[at] = time.AfterFunc(releasePause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pauses, at)
		s.release(proxy, cluster)
	})
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
