package xds

import "time"

// DefaultLeaveDelay is how long a proxy that is about to go takes new connections yet: longer than Services and
// Ingress controllers need to learn of a Pod's end.
const DefaultLeaveDelay = 5 * time.Second

// leaveTime is when the proxy of a stream loses listeners, nil for one that is not known to go.
func (s *Server) leaveTime(members *membership, st *stream) <-chan time.Time {
	if _, leaves := members.leaving[st.address]; !leaves || len(s.options.LeftListeners) == 0 {
		return nil
	}
	return time.After(s.options.LeaveDelay)
}

// leave takes listeners away from the proxy, which is about to go. It doesn't come back from there.
func (s *session) leave(now time.Time, listeners []string) output {
	for _, name := range listeners {
		s.find(listenerKind, name) // What is taken away has to have a record.
		s.subs[listenerKind].dirty.add(name)
	}
	s.left = listeners
	return s.tick(now)
}
