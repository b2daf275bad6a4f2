package session

import "sync/atomic"

// UnknownNames counts the memory of names that the streams of a fleet have named and that are not published. The zero
// value counts none. It is safe for concurrent use.
type UnknownNames struct{ bytes atomic.Int64 }

// add adds bytes, and returns false if that exceeds the limit. It accepts nil.
func (u *UnknownNames) add(bytes int) bool {
	if u == nil {
		return true
	}
	if u.bytes.Add(int64(bytes)) > fleetUnknownLimit {
		u.bytes.Add(-int64(bytes))
		return false
	}
	return true
}

// remove removes bytes. It accepts nil.
func (u *UnknownNames) remove(bytes int) {
	if u != nil {
		u.bytes.Add(-int64(bytes))
	}
}

// CountUnknownNames counts the unknown names of the stream with those of its fleet. It must be called before Receive,
// and Close after the last call.
func (s *Session) CountUnknownNames(all *UnknownNames) { s.fleetUnknown = all }

// Close ends what CountUnknownNames has begun.
func (s *Session) Close() {
	s.fleetUnknown.remove(s.unknownBytes)
	s.unknownBytes = 0
}

// charge counts the memory of a name that is not published, and returns false if it exceeds a limit. That of a reported
// version counts as long as the stream lasts: a proxy reports versions only when it connects.
func (s *Session) charge(name string) bool {
	cost := len(name) + unknownNameCost
	if s.unknownBytes+cost > unknownBytesLimit || !s.fleetUnknown.add(cost) {
		return false
	}
	s.unknownBytes += cost
	return true
}

// discharge ends what charge has begun.
func (s *Session) discharge(name string) {
	cost := len(name) + unknownNameCost
	s.unknownBytes -= cost
	s.fleetUnknown.remove(cost)
}
