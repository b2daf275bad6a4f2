package xds

import (
	"sync"
	"sync/atomic"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
)

// fleet is what is published to a group of proxies, and what they rejected of it. Sessions of other fleets do not use
// it.
type fleet struct {
	name       string
	rejected   *session.Rejections
	unknown    *session.UnknownNames
	publishing sync.Mutex // held by update, so that each snapshot follows the one before
	latest     atomic.Pointer[publication]
	retired    chan struct{} // closed when the fleet is removed
}

// publication is a snapshot and a signal that a later one follows.
type publication struct {
	snapshot   *session.Snapshot // nil in the first publication
	superseded chan struct{}
}

// fleet returns the fleet of a name, and creates it if there is none. The caller holds the lock.
func (s *Server) fleet(name string) *fleet {
	f := s.fleets[name]
	if f == nil {
		f = &fleet{
			name: name, rejected: new(session.Rejections), unknown: new(session.UnknownNames), retired: make(chan struct{}),
		}
		f.latest.Store(&publication{superseded: make(chan struct{})})
		s.fleets[name] = f
	}
	return f
}

// Retire removes a fleet and ends its streams.
func (s *Server) Retire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.fleets[name]; f != nil {
		delete(s.fleets, name)
		close(f.retired)
	}
}

// current returns the latest publication.
func (f *fleet) current() *publication { return f.latest.Load() }
