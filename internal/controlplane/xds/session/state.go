package session

import (
	"iter"
	"slices"
)

// ResourceState is what a proxy answered about one resource. Versions are those of [Snapshot.Version]; empty means
// none.
type ResourceState struct {
	// Acked is the version that the proxy certainly uses: it is the last one that was sent, and the proxy ACKed it.
	Acked string
	// Nacked is a version in a response that the proxy rejected, if no ACK of a later response followed. It need not
	// be the reason of the NACK.
	Nacked string
	// Message is the proxy's reason for the NACK.
	Message string
}

// State returns what the proxy answered about one resource, the zero value if the resource is not on the stream.
func (s *Session) State(k Kind, name string) ResourceState {
	rec := s.lookup(k, name)
	var out ResourceState
	if rec.isSynced() {
		out.Acked = rec.sent.version.String()
	}
	if rec.rejection != nil {
		out.Nacked, out.Message = rec.rejection.version.String(), rec.rejection.message
	}
	return out
}

// TakeChanged returns the names of the resources whose State may have changed since the last call, nil for none. All
// others have the same State as then.
func (s *Session) TakeChanged(k Kind) iter.Seq[string] { return s.subs[k].changed.take() }

// Rejected returns the sorted names of the resources that are not sent because the proxy rejected the desired version
// in a response that contained nothing else new.
func (s *Session) Rejected(k Kind) []string {
	var names []string
	for name, rec := range s.subs[k].records {
		if rec.isRejected() && rec.hasRejected(s.desired(k, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Serves reports whether the proxy ACKed the endpoints of that name as they were last sent, and one of them accepts
// new requests.
func (s *Session) Serves(endpoints string) bool {
	rec := s.lookup(EndpointKind, endpoints)
	return rec.isSynced() && rec.sent.hasContent() && rec.sent.serving
}

// JoiningBytes is the memory that a session takes for each resource until HasJoined, in bytes. Synced resources take much
// less.
const JoiningBytes = 256

// HasJoined reports whether the proxy answered its first scopes, which are the last resources that it subscribes to.
func (s *Session) HasJoined() bool {
	sub := &s.subs[ScopeKind]
	return sub.nonce != "" && len(sub.pending) == 0
}
