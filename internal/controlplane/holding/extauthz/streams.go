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
	"github.com/kedify/argo-rollouts-plugin/internal/model"
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

// SetProxies sets the proxies of all fleets. A call may come from another address of its proxy than the discovery
// stream, because a dual-stack proxy uses the IP family of the destination. An address that two proxies have identifies
// neither.
func (s *Server) SetProxies(fleets map[model.Fleet][]model.Proxy) {
	claims, addresses := map[netip.Addr]int{}, map[netip.Addr][]netip.Addr{}
	for _, proxies := range fleets {
		for _, proxy := range proxies {
			for _, address := range proxy.Addresses {
				claims[address]++
			}
		}
	}
	for _, proxies := range fleets {
		for _, proxy := range proxies {
			own := slices.DeleteFunc(slices.Clone(proxy.Addresses), func(at netip.Addr) bool { return claims[at] > 1 })
			for _, address := range own {
				if len(own) > 1 {
					addresses[address] = own
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
	s.running.setProxies(fleets)
}

// EndpointsAcked is called when a proxy has ACKed endpoints. It releases the requests that wait for them.
func (s *Server) EndpointsAcked(proxy netip.Addr) { s.release(proxy, CauseAcknowledged) }

// release releases the requests of a proxy for the clusters that it serves, as many as its Pacer allows. It asks the
// stream without the lock, because a busy session may not delay the requests of other proxies. cause is why.
func (s *Server) release(proxy netip.Addr, cause Cause) {
	s.mu.Lock()
	stream, clusters := s.streamAt(proxy), s.queue.ClustersAt(proxy)
	s.mu.Unlock()
	served := map[string]bool{}
	for _, cluster := range clusters {
		served[cluster] = stream != nil && stream.Serves(cluster)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseServed(proxy, stream, served, cause)
}

// streamAt returns the latest stream from an address, nil for none. The caller holds the lock.
func (s *Server) streamAt(proxy netip.Addr) Stream {
	if streams := s.streams[proxy]; len(streams) > 0 {
		return streams[len(streams)-1]
	}
	return nil
}

// releaseServed is release for the clusters that a proxy serves on a stream, if that is still its latest one. The caller
// holds the lock.
func (s *Server) releaseServed(proxy netip.Addr, stream Stream, served map[string]bool, cause Cause) {
	pacer := s.pacers[proxy]
	if pacer == nil {
		pacer = new(proxyPacer)
	}
	if latest := s.streamAt(proxy); stream != nil && latest != nil && latest.Number() == stream.Number() {
		released := s.queue.Release(proxy, func(cluster string) bool { return served[cluster] }, pacer.Available())
		for _, waiter := range released {
			s.respond(waiter, outcome{isReleased: true, cause: cause})
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
	pacer.due = nil
	pacer.Refill()
	s.mu.Unlock()
	s.release(proxy, CausePace)
}

// latestStream returns the latest stream of the proxy with an address and the address of that stream, nil for none. The
// caller holds the lock.
func (s *Server) latestStream(proxy netip.Addr) (Stream, netip.Addr) {
	for _, address := range slices.Concat([]netip.Addr{proxy}, s.addresses[proxy]) {
		if stream := s.streamAt(address); stream != nil {
			return stream, address
		}
	}
	return nil, proxy
}

// streamOf returns the latest stream of the proxy with an address, and the address of that stream, which identifies the
// proxy. It waits up to streamTimeout for a stream. The error is a gRPC status.
func (s *Server) streamOf(ctx context.Context, proxy netip.Addr) (Stream, netip.Addr, error) {
	timeout := time.NewTimer(streamTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		stream, at := s.latestStream(proxy)
		opened := s.opened
		s.mu.Unlock()
		ready := s.synced // Workloads are set before the first stream opens.
		if stream != nil {
			opened = nil
		} else {
			ready = nil
		}
		select {
		case <-ready:
			return stream, at, nil
		case <-opened:
		case <-ctx.Done():
			return nil, at, status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return nil, at, errStopping()
		case <-timeout.C:
			return nil, at, errMoved()
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
