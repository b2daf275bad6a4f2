package xds

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// ResourceState is what a proxy has answered about one resource on one stream. Versions are those of
// [Server.Versions]; empty means none.
type ResourceState struct {
	// Acked is the version that the proxy runs for certain: it confirmed the last thing that it was sent, and
	// that is it.
	Acked string
	// Nacked is a version that travelled in a response that the proxy refused and of which no later
	// ACK is known. It need not be the culprit.
	Nacked string
	// Message is the proxy's reason for the refusal.
	Message string
}

// state is what is told of one resource.
func (s *session) state(k kind, name string) ResourceState {
	rec := s.look(k, name)
	var out ResourceState
	if rec.inSync() {
		out.Acked = rec.sent.version.String()
	}
	if rec.rejection != nil {
		out.Nacked, out.Message = rec.rejection.version.String(), rec.rejection.message
	}
	return out
}

// heldBack names what is held back of a kind: what was refused alone in the version that is desired.
func (s *session) heldBack(k kind) []string {
	var names []string
	for name, rec := range s.subs[k].records {
		if rec.isAlone() && rec.rejects(s.desired(k, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// heldBack counts what is held back of a kind on all streams.
func (s *Server) heldBack(k kind) int {
	count := 0
	for _, st := range s.listed() {
		st.mu.Lock()
		count += len(st.session.heldBack(k))
		st.mu.Unlock()
	}
	return count
}

// StreamState shows one open stream. It goes on meanwhile: what is asked later may be newer.
type StreamState struct {
	stream  *stream
	changed map[string]map[string]struct{} // by type URL
}

// Poll shows every open stream to see, in order of their numbers, and forgets what has changed on
// them. So there is one who polls. A poll costs what has changed, whatever else the proxies have, and
// holds no proxy up. What changes after a stream was shown is in the next poll.
func (s *Server) Poll(see func(StreamState)) {
	for _, st := range s.listed() {
		see(st.poll())
	}
}

// Changed signals that Poll may show something else than when the channel was last read: a proxy
// came, went, or sent a request, which an ACK or NACK is. Signals are merged, and there is one
// channel for one reader.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// listed are the open streams in order of their numbers.
func (s *Server) listed() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	byNumber := func(a, b *stream) int { return cmp.Compare(a.number, b.number) }
	return slices.SortedFunc(maps.Keys(s.streams), byNumber)
}

// poll shows the stream.
func (st *stream) poll() StreamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	v := StreamState{stream: st, changed: map[string]map[string]struct{}{}}
	for k := range kind(kindCount) {
		if sub := &st.session.subs[k]; len(sub.changed) > 0 {
			v.changed[k.typeURL()], sub.changed = sub.changed, map[string]struct{}{}
		}
	}
	return v
}

// Number is the number of the stream. Numbers rise and are never used again in this process; they
// mean nothing outside it.
func (v StreamState) Number() uint64 { return v.stream.number }

// Peer is the proxy's address, host:port. Every proxy gives the same node id, so this is what tells
// them apart.
func (v StreamState) Peer() string { return v.stream.peer }

// Address is that of the proxy without its port, one that is not valid if Peer is none.
func (v StreamState) Address() netip.Addr { return v.stream.address }

// Fleet is the fleet that the proxy belongs to.
func (v StreamState) Fleet() string { return v.stream.fleet.name }

// Changed visits the names of the resources of a type of which Resource may say something else than
// at the poll before, in no order. All others are as they were.
func (v StreamState) Changed(typeURL string) iter.Seq[string] { return maps.Keys(v.changed[typeURL]) }

// Resource is what the proxy was sent of one resource and has answered, the zero value if it knows
// nothing of it.
func (v StreamState) Resource(typeURL, name string) ResourceState {
	k, served := kindOf(typeURL)
	if !served {
		return ResourceState{}
	}
	v.stream.mu.Lock()
	defer v.stream.mu.Unlock()
	return v.stream.session.state(k, name)
}

// Versions returns a lookup of the versions of resources that are published to fleets now, whatever is
// published later; empty when there is no such resource. A version is a hash of the content, equal on
// every replica.
func (s *Server) Versions() func(fleet, typeURL, name string) string {
	s.mu.Lock()
	snapshots := make(map[string]*snapshot, len(s.fleets))
	for name, f := range s.fleets {
		snapshots[name] = f.current().snapshot
	}
	s.mu.Unlock()
	return func(fleet, typeURL, name string) string {
		k, served := kindOf(typeURL)
		if published := snapshots[fleet]; served && published != nil {
			return published.version(k, name).String()
		}
		return ""
	}
}
