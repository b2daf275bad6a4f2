package ingest

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

	mu         sync.Mutex
	objects    map[types.NamespacedName]T
	view       []T // the values of objects, nil when out of date
	listed     bool
	generation uint64 // grows with every change that may matter to routing
}

// newStore returns an empty store that has not been listed.
func newStore[T metav1.Object](reduce func(T) T, sameRouting func(before, after T) bool, changed func()) *store[T] {
	return &store[T]{reduce: reduce, sameRouting: sameRouting, changed: changed, objects: map[types.NamespacedName]T{}}
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
	s.view = nil
	s.generation++
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace puts a complete list in the place of everything, see cache.ReflectorStore.
func (s *store[T]) Replace(list []any, _ string) error {
	objects := make(map[types.NamespacedName]T, len(list))
	for _, object := range list {
		typed, err := s.typed(object)
		if err != nil {
			return err
		}
		objects[nameOf(typed)] = s.reduce(typed)
	}
	s.mu.Lock()
	s.objects = objects
	s.view = nil
	s.listed = true
	s.generation++
	s.mu.Unlock()
	s.changed()
	return nil
}

// Resync does nothing: the loop needs no reminders, see cache.ReflectorStore.
func (s *store[T]) Resync() error { return nil }

// put stores one object and leaves the generation alone when routing cannot notice.
func (s *store[T]) put(object any) error {
	typed, err := s.typed(object)
	if err != nil {
		return err
	}
	reduced, name := s.reduce(typed), nameOf(typed)
	s.mu.Lock()
	if before, known := s.objects[name]; !known || !s.sameRouting(before, reduced) {
		s.generation++
	}
	s.objects[name] = reduced
	s.view = nil
	s.mu.Unlock()
	s.changed()
	return nil
}

// current returns all objects in no particular order, and the generation they belong to. The slice is shared: nobody may write to it.
func (s *store[T]) current() ([]T, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		s.view = make([]T, 0, len(s.objects))
		for _, object := range s.objects {
			s.view = append(s.view, object)
		}
	}
	return s.view, s.generation
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
func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
