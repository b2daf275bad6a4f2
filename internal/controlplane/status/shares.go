package status

import (
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// shares limits the writes to the objects of one namespace that are in progress: they are fewer than the free workers, so
// alone it uses half of the workers. The API server may be slow for one namespace, such as because of an admission
// webhook, and the writes to others must not wait for it. It is safe for concurrent use. Make it with newShares.
type shares struct {
	newOrder func() *canariesFirst

	mu      sync.Mutex
	free    int
	running map[string]int            // by namespace
	parked  map[string]*canariesFirst // the objects that wait, by namespace; each has at least one
	isIn    map[model.Key]struct{}    // the objects in parked
}

// newShares returns shares of a number of workers. isCanary selects the objects that do not wait for others of their
// namespace.
func newShares(workers int, isCanary func(model.Key) bool) *shares {
	return &shares{
		newOrder: func() *canariesFirst { return &canariesFirst{isCanary: isCanary} },
		free:     workers, running: map[string]int{}, parked: map[string]*canariesFirst{},
		isIn: map[model.Key]struct{}{},
	}
}

// enter begins a write to an object, or returns false: then a later call of leave or pass returns the object.
func (s *shares) enter(key model.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key.Namespace] < s.free {
		s.running[key.Namespace]++
		s.free--
		return true
	}
	if _, isIn := s.isIn[key]; isIn {
		return false
	}
	if s.parked[key.Namespace] == nil {
		s.parked[key.Namespace] = s.newOrder()
	}
	s.isIn[key] = struct{}{}
	s.parked[key.Namespace].Push(key)
	return false
}

// leave ends a write to an object, and returns one of its namespace that waits.
func (s *shares) leave(key model.Key) (next model.Key, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.running[key.Namespace]--; s.running[key.Namespace] == 0 {
		delete(s.running, key.Namespace)
	}
	return s.pop(key.Namespace)
}

// pass returns an object of a namespace that waits although no write of the namespace is in progress: the object that
// leave has returned before needed no write.
func (s *shares) pass(namespace string) (next model.Key, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[namespace] > 0 {
		return model.Key{}, false // leave will return it.
	}
	return s.pop(namespace)
}

// pop removes and returns an object that waits. The caller holds the lock.
func (s *shares) pop(namespace string) (next model.Key, exists bool) {
	parked := s.parked[namespace]
	if parked == nil {
		return model.Key{}, false
	}
	if next = parked.Pop(); parked.Len() == 0 {
		delete(s.parked, namespace)
	}
	delete(s.isIn, next)
	return next, true
}
