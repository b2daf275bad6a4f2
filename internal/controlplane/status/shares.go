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

// newShares returns shares of a number of workers. isCanary selects the objects that precede others of their namespace.
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
		s.parked[key.Namespace].Touch(key)
		return false
	}
	if s.parked[key.Namespace] == nil {
		s.parked[key.Namespace] = s.newOrder()
	}
	s.isIn[key] = struct{}{}
	s.parked[key.Namespace].Push(key)
	return false
}

// leave ends a write to an object, and returns objects that can now be written: one that waits of its namespace, and one
// of another namespace, which may have waited for a free worker. The caller queues them.
func (s *shares) leave(key model.Key) []model.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.running[key.Namespace]--; s.running[key.Namespace] == 0 {
		delete(s.running, key.Namespace)
	}
	const most = 2
	return s.next(key.Namespace, most)
}

// pass returns an object that can be written instead of one of a namespace that needed no write. The caller queues it.
func (s *shares) pass(namespace string) []model.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next(namespace, 1)
}

// next removes and returns at most a number of waiting objects, one of each namespace whose share permits a write, and
// that of the given namespace first. While objects wait, a write is in progress, or next has returned an object that
// will be followed by leave or pass. The caller holds the lock.
func (s *shares) next(namespace string, most int) []model.Key {
	keys := s.pop(nil, namespace)
	for other := range s.parked {
		if len(keys) == most {
			break
		}
		if other != namespace {
			keys = s.pop(keys, other)
		}
	}
	return keys
}

// pop removes a waiting object of a namespace and appends it to keys, if the share of the namespace permits a write after
// those of keys have begun. The caller holds the lock.
func (s *shares) pop(keys []model.Key, namespace string) []model.Key {
	parked := s.parked[namespace]
	if parked == nil || s.running[namespace] >= s.free-len(keys) {
		return keys
	}
	next := parked.Pop()
	if parked.Len() == 0 {
		delete(s.parked, namespace)
	}
	delete(s.isIn, next)
	return append(keys, next)
}
