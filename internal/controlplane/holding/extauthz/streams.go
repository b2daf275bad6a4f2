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

// Opened adds a discovery stream of a proxy. If it has several, the latest applies.
func (s *Server) Opened(proxy netip.Addr, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	streams := append(slices.Clip(s.streams[proxy]), stream)
	slices.SortFunc(streams, func(a, b Stream) int { return cmp.Compare(a.Number(), b.Number()) })
	s.streams[proxy] = streams
	close(s.opened)
	s.opened = make(chan struct{})
}

// Closed removes a stream. When the last stream of a proxy closes, its calls end: the proxy may be connected to another
// replica, and repeats its calls there.
func (s *Server) Closed(proxy netip.Addr, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remaining := slices.DeleteFunc(slices.Clone(s.streams[proxy]), func(other Stream) bool {
		return other.Number() == stream.Number()
	})
	if len(remaining) > 0 {
		s.streams[proxy] = remaining
		return
	}
	delete(s.streams, proxy)
	for _, waiter := range s.queue.RemoveProxy(proxy) {
		s.respond(waiter, outcome{isMoved: true})
	}
}

// EndpointsAcked is called when a proxy has ACKed endpoints. It releases the requests that wait for them.
func (s *Server) EndpointsAcked(proxy netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(proxy)
}

// release releases the requests of a proxy for the clusters that it serves, as many as its Pacer allows. The caller
// holds the lock.
func (s *Server) release(proxy netip.Addr) {
	pacer := s.pacers[proxy]
	if pacer == nil {
		pacer = new(proxyPacer)
	}
	if streams := s.streams[proxy]; len(streams) > 0 {
		released := s.queue.Release(proxy, streams[len(streams)-1].Serves, pacer.Available())
		for _, waiter := range released {
			s.respond(waiter, outcome{isReleased: true})
		}
		pacer.Take(len(released))
	}
	switch {
	case pacer.IsFull():
		delete(s.pacers, proxy)
	case pacer.due == nil:
		pacer.due = time.AfterFunc(holding.RefillInterval, func() { s.refill(proxy, pacer) })
		s.pacers[proxy] = pacer
	}
}

// refill refills the Pacer of a proxy, and releases more requests.
func (s *Server) refill(proxy netip.Addr, pacer *proxyPacer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pacer.due = nil
	pacer.Refill()
	s.release(proxy)
}

// streamOf returns the latest stream of a proxy. It waits up to streamTimeout for one. The error is a gRPC status.
func (s *Server) streamOf(ctx context.Context, proxy netip.Addr) (Stream, error) {
	timeout := time.NewTimer(streamTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		streams, opened := s.streams[proxy], s.opened
		s.mu.Unlock()
		ready := s.synced // Workloads are set before the first stream opens.
		if len(streams) > 0 {
			opened = nil
		} else {
			ready = nil
		}
		select {
		case <-ready:
			return streams[len(streams)-1], nil
		case <-opened:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return nil, errStopping()
		case <-timeout.C:
			return nil, errMoved()
		}
	}
}

// errMoved returns the status of a call from a proxy without a stream at this replica. Envoy retries the call.
func errMoved() error {
	return status.Error(codes.Unavailable, "the proxy is connected to another replica")
}

// errStopping returns the status of a call after Close. Envoy retries the call.
func errStopping() error {
	return status.Error(codes.Unavailable, "the interceptor is shutting down")
}
