package xds

import (
	"sync"
	"sync/atomic"
)

// fleet is what is published to the proxies that serve the same, and what they have refused of it.
// Nothing of one fleet is known to the sessions of another one.
type fleet struct {
	name       string
	rejected   *rejections
	publishing sync.Mutex // held by follow: snapshots follow one another
	edition    atomic.Pointer[edition]
	retired    chan struct{} // closed when the fleet is gone
}

// edition is a snapshot with the means to learn that there is a later one.
type edition struct {
	snapshot   *snapshot // nil in the first edition
	superseded chan struct{}
}

// fleet returns the fleet of a name, and begins it if need be. The caller holds the lock.
func (s *Server) fleet(name string) *fleet {
	f := s.fleets[name]
	if f == nil {
		f = &fleet{name: name, rejected: &rejections{}, retired: make(chan struct{})}
		f.edition.Store(&edition{superseded: make(chan struct{})})
		s.fleets[name] = f
	}
	return f
}

// Retire forgets a fleet, and ends the streams that it may have.
func (s *Server) Retire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.fleets[name]; f != nil {
		delete(s.fleets, name)
		close(f.retired)
	}
}

// current is the latest edition.
func (f *fleet) current() *edition { return f.edition.Load() }
