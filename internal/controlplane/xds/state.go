package xds

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
)

// heldBack counts the rejected resources of a kind on all streams.
func (s *Server) heldBack(k session.Kind) int {
	count := 0
	for _, st := range s.sortedStreams() {
		st.mu.Lock()
		count += len(st.session.Rejected(k))
		st.mu.Unlock()
	}
	return count
}

// StreamState is the state of one open stream. The stream continues: later calls may return newer state.
type StreamState struct {
	stream  *stream
	changed map[string]iter.Seq[string] // by type URL
}

// Poll calls visit with every open stream that no longer waits for its turn to join, in order of their numbers, and
// resets what has changed on them. So there must be only one caller. The cost of a poll depends on what has changed only,
// and a poll delays no proxy. A change after the visit of a stream is in the next poll.
func (s *Server) Poll(visit func(StreamState)) {
	for _, st := range s.sortedStreams() {
		if st.isAdmitted.Load() {
			visit(st.poll())
		}
	}
}

// Changed returns a channel that signals that the next Poll may differ from the last one. The causes are that a proxy
// connected, disconnected, or sent a request, for example an ACK or NACK. Signals are merged, and there is one channel
// for one reader.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// sortedStreams returns the open streams in order of their numbers.
func (s *Server) sortedStreams() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	byNumber := func(a, b *stream) int { return cmp.Compare(a.number, b.number) }
	return slices.SortedFunc(maps.Keys(s.streams), byNumber)
}

// poll returns the state of the stream and resets what has changed.
func (st *stream) poll() StreamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	v := StreamState{stream: st, changed: map[string]iter.Seq[string]{}}
	for k := range session.Kind(session.KindCount) {
		if changed := st.session.TakeChanged(k); changed != nil {
			v.changed[k.TypeURL()] = changed
		}
	}
	return v
}

// Number returns the number of the stream. Numbers increase and are never reused in this process; they mean nothing
// outside it.
func (v StreamState) Number() uint64 { return v.stream.number }

// Peer returns the proxy's address, host:port. It identifies the proxy, because every proxy has the same node ID.
func (v StreamState) Peer() string { return v.stream.peer }

// Address returns the proxy's address without the port, an invalid one if Peer is no address.
func (v StreamState) Address() netip.Addr { return v.stream.address }

// Fleet returns the fleet of the proxy.
func (v StreamState) Fleet() string { return v.stream.fleet.name }

// Changed iterates over the names of the resources of a type whose Resource may have changed since the last poll, in no
// order. All others are unchanged.
func (v StreamState) Changed(typeURL string) iter.Seq[string] {
	if changed := v.changed[typeURL]; changed != nil {
		return changed
	}
	return func(func(string) bool) {}
}

// Resource returns what the proxy answered about one resource, the zero value if the resource is not on the stream.
func (v StreamState) Resource(typeURL, name string) session.ResourceState {
	k, isServed := session.KindOf(typeURL)
	if !isServed {
		return session.ResourceState{}
	}
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	return v.stream.session.State(k, name)
}

// Serves reports whether the proxy ACKed the endpoints of that name as they were last sent, and one of them accepts new
// requests.
func (v StreamState) Serves(endpoints string) bool {
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	return v.stream.session.Serves(endpoints)
}

// Versions returns a lookup of the versions of the resources that are published to fleets now; empty if there is no
// such resource. Later publications do not change the result. A version is a hash of the content, equal on every
// replica.
func (s *Server) Versions() func(fleet, typeURL, name string) string {
	s.mu.Lock()
	snapshots := make(map[string]*session.Snapshot, len(s.fleets))
	for name, f := range s.fleets {
		snapshots[name] = f.current().snapshot
	}
	s.mu.Unlock()
	return func(fleet, typeURL, name string) string {
		k, isServed := session.KindOf(typeURL)
		if published := snapshots[fleet]; isServed && published != nil {
			return published.Version(k, name)
		}
		return ""
	}
}
