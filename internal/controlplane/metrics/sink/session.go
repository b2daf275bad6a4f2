package sink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// session is an open stream of a proxy.
type session struct {
	address netip.Addr
	member  member
	// isProven is true if the client has proven that it is member.
	isProven bool
	stream   *metrics.Stream
	end      context.CancelCauseFunc
	// hosts are the namespaces that accept the external proxy, by whose limits the session counts.
	hosts []string
}

// account returns the account of the session's samples: its fleet, or a namespace that accepts the external proxy.
func (s *session) account() string {
	if len(s.hosts) > 0 {
		return "external/" + s.hosts[0]
	}
	return string(s.member.fleet)
}

// open starts the stream of a proxy, and ends the one before with errSuperseded by its end function. The error is a gRPC
// status.
func (s *Sink) open(address netip.Addr, m member, isProven bool, end context.CancelCauseFunc) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strict[m.fleet] && !isProven { // It may not end the stream of the proxy.
		return nil, statusOf(fmt.Errorf("%w %s", errUnproven, m))
	}
	before, hosts := s.streams[m], []string(nil)
	if m.fleet == metrics.ExternalFleet {
		if hosts = s.hostsOf(address, before); len(hosts) == 0 {
			return nil, s.errFull()
		}
	}
	if before != nil {
		before.end(errSuperseded)
	} else if s.countStreams(m.fleet == metrics.ExternalFleet) >= s.maxStreams {
		return nil, s.errFull()
	}
	open := &session{address, m, isProven, s.meter.Open(s.now(), m.fleet, m.proxy), end, hosts}
	s.streams[m] = open
	return open, nil
}

// countStreams returns the number of streams of external proxies, or of those of fleets. The caller holds the lock.
func (s *Sink) countStreams(isExternal bool) (count int) {
	for m := range s.streams {
		if isExternal == (m.fleet == metrics.ExternalFleet) {
			count++
		}
	}
	return count
}

// hostsOf returns the namespaces below their limit that accept an external proxy. before is its previous stream, nil if
// there is none. The caller holds the lock.
func (s *Sink) hostsOf(address netip.Addr, before *session) []string {
	counts := map[string]int{}
	for _, open := range s.streams {
		if open == before {
			continue
		}
		for _, namespace := range open.hosts {
			counts[namespace]++
		}
	}
	return slices.DeleteFunc(s.meter.ExternalNamespaces(address),
		func(namespace string) bool { return counts[namespace] >= s.maxExternal })
}

// close ends a session.
func (s *Sink) close(open *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open.stream.Close()
	if s.streams[open.member] == open {
		delete(s.streams, open.member)
	}
}

// apply counts a batch.
func (s *Sink) apply(open *session, batch metrics.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !open.stream.IsCurrent() {
		return errSuperseded
	}
	if now := s.members[open.address]; len(now) == 1 && now[0] != open.member {
		return fmt.Errorf("%w %s", errMoved, now[0])
	}
	if s.strict[open.member.fleet] && !open.isProven {
		return fmt.Errorf("%w %s", errUnproven, open.member)
	}
	if open.member.fleet == metrics.ExternalFleet && len(s.meter.ExternalNamespaces(open.address)) == 0 {
		return errRevoked
	}
	isNew, err := open.stream.Apply(s.now(), batch)
	if err != nil {
		return err
	}
	if !isNew {
		s.metrics.idle.Inc()
	}
	close(s.arrived)
	s.arrived = make(chan struct{})
	return nil
}
