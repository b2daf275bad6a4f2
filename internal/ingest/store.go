package ingest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// store is what one list and watch has brought so far. It is the cache.ReflectorStore of its reflector, which writes, and the loop reads views of it.
// Objects in it are never changed, only replaced, so that views may share them.
type store[T metav1.Object] struct {
	// reduce copies the fields of an object that are read, out of an object that stays the caller's.
	reduce func(T) T
	// sameRouting says whether two versions of an object make no difference for routing, such as two that differ in their status alone.
	sameRouting func(before, after T) bool
	// changed is called after every change, with no lock held. It must not block.
	changed func()

	mu      sync.Mutex
	objects map[ir.Key]T
	view    []T // the values of objects, nil when out of date
	listed  bool
	news    map[ir.Key]bool // what has changed since the last take, and whether it matters to routing
	// written are the resource versions of the last change of each object that may have mattered to routing, as far as it was seen.
	written map[ir.Key]string
}

// newStore returns an empty store that has not been listed.
func newStore[T metav1.Object](reduce func(T) T, sameRouting func(before, after T) bool, changed func()) *store[T] {
	return &store[T]{reduce: reduce, sameRouting: sameRouting, changed: changed, objects: map[ir.Key]T{}, news: map[ir.Key]bool{}, written: map[ir.Key]string{}}
}

// Add puts an object that the watch saw for the first time, see cache.ReflectorStore.
func (s *store[T]) Add(object any) error { return s.put(object) }

// Update puts a new version of an object, see cache.ReflectorStore.
func (s *store[T]) Update(object any) error { return s.put(object) }

// Delete removes an object, see cache.ReflectorStore.
func (s *store[T]) Delete(object any) error {
	typed, err := s.typed(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.objects, nameOf(typed))
	delete(s.written, nameOf(typed))
	s.view = nil
	s.news[nameOf(typed)] = true
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace puts a complete list in the place of everything, see cache.ReflectorStore.
func (s *store[T]) Replace(list []any, _ string) error {
	objects := make(map[ir.Key]T, len(list))
	for _, object := range list {
		typed, err := s.typed(object)
		if err != nil {
			return err
		}
		objects[nameOf(typed)] = s.reduce(typed)
	}
	s.mu.Lock()
	before := s.objects
	s.objects = objects
	s.view = nil
	s.listed = true
	for name := range before {
		if _, still := objects[name]; !still {
			s.news[name] = true
			delete(s.written, name)
		}
	}
	for name, object := range objects {
		s.note(name, object, before)
		if old, known := before[name]; known && old.GetResourceVersion() != object.GetResourceVersion() {
			s.written[name] = object.GetResourceVersion() // What came between, and was undone again, was not seen.
		}
	}
	s.mu.Unlock()
	s.changed()
	return nil
}

// Resync does nothing: the loop needs no reminders, see cache.ReflectorStore.
func (s *store[T]) Resync() error { return nil }

// put stores one object.
func (s *store[T]) put(object any) error {
	typed, err := s.typed(object)
	if err != nil {
		return err
	}
	reduced, name := s.reduce(typed), nameOf(typed)
	s.mu.Lock()
	s.note(name, reduced, s.objects)
	s.objects[name] = reduced
	s.view = nil
	s.mu.Unlock()
	s.changed()
	return nil
}

// note says that an object takes the place of the one before. The caller holds the lock.
func (s *store[T]) note(name ir.Key, object T, before map[ir.Key]T) {
	old, known := before[name]
	matters := !known || !s.sameRouting(old, object)
	s.news[name] = s.news[name] || matters
	if known && matters {
		s.written[name] = object.GetResourceVersion()
	}
}

// take returns what has changed since it was last called, with each object as it is now. It says of each whether the change matters to routing.
func (s *store[T]) take() map[ir.Key]piece[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.news) == 0 {
		return nil
	}
	taken := make(map[ir.Key]piece[T], len(s.news))
	for name, matters := range s.news {
		object, isThere := s.objects[name]
		taken[name] = piece[T]{object, isThere, matters, s.written[name]}
	}
	s.news = map[ir.Key]bool{}
	return taken
}

// piece is what is new of one object.
type piece[T any] struct {
	object  T
	isThere bool // otherwise it is gone
	matters bool // to routing
	// written is the resource version of the last change that may have mattered to routing, "" when none was seen.
	written string
}

// all returns all objects in no particular order. The slice is shared: nobody may write to it.
func (s *store[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		s.view = slices.Collect(maps.Values(s.objects))
	}
	return s.view
}

// count returns how many objects there are.
func (s *store[T]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

// isListed says whether a complete list has been there.
func (s *store[T]) isListed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// typed refuses what is not of the store's kind; the reflector checks that too, so an error is a mistake in how the two were put together.
func (s *store[T]) typed(object any) (T, error) {
	typed, ok := object.(T)
	if !ok {
		return typed, fmt.Errorf("store of %T was given a %T", typed, object)
	}
	return typed, nil
}

// nameOf returns the identity of an object among those of its kind.
func nameOf(object metav1.Object) ir.Key {
	return ir.Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}
