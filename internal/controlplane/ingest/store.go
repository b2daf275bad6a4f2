package ingest

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// store is what one list and watch has brought so far. It is the cache.ReflectorStore of its reflector, which writes, and the loop takes what is new.
// What is kept of an object is never changed, only replaced.
type store[T any] struct {
	// read returns the name of an object and what is kept of it. The object stays the caller's. An error says that it is not of the store's kind.
	read func(object any) (model.Key, T, error)
	// sameRouting says whether two versions of an object make no difference for routing, such as two that differ in their status alone.
	sameRouting func(before, after T) bool
	// versionOf returns the resource version of an object, "" when it is not kept.
	versionOf func(T) string
	// changed is called after every change, with no lock held. It must not block.
	changed func()

	mu      sync.Mutex
	objects map[model.Key]T
	listed  bool
	news    map[model.Key]bool // what has changed since the last take, and whether it matters to routing
	// written are the resource versions of the last change of each object that may have mattered to routing, as far as it was seen.
	written map[model.Key]string
}

// newStore returns an empty store that has not been listed. reduce makes what is kept of an object.
func newStore[K metav1.Object, T any](reduce func(K) T, sameRouting func(before, after T) bool, changed func()) *store[T] {
	return &store[T]{
		read: func(object any) (name model.Key, kept T, err error) {
			typed, ok := object.(K)
			if !ok { // The reflector checks that too, so this is a mistake in how the two were put together.
				return name, kept, fmt.Errorf("store of %T was given a %T", typed, object)
			}
			return model.Key{Namespace: typed.GetNamespace(), Name: typed.GetName()}, reduce(typed), nil
		},
		sameRouting: sameRouting, versionOf: func(T) string { return "" }, changed: changed,
		objects: map[model.Key]T{}, news: map[model.Key]bool{}, written: map[model.Key]string{},
	}
}

// Add puts an object that the watch saw for the first time, see cache.ReflectorStore.
func (s *store[T]) Add(object any) error {
	name, kept, err := s.read(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.note(name, kept, s.objects)
	s.objects[name] = kept
	s.mu.Unlock()
	s.changed()
	return nil
}

// Update puts a new version of an object, see cache.ReflectorStore.
func (s *store[T]) Update(object any) error { return s.Add(object) }

// Delete removes an object, see cache.ReflectorStore.
func (s *store[T]) Delete(object any) error {
	name, _, err := s.read(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.objects, name)
	delete(s.written, name)
	s.news[name] = true
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace puts a complete list in the place of everything, see cache.ReflectorStore.
func (s *store[T]) Replace(list []any, _ string) error {
	objects := make(map[model.Key]T, len(list))
	for _, object := range list {
		name, kept, err := s.read(object)
		if err != nil {
			return err
		}
		objects[name] = kept
	}
	s.mu.Lock()
	before := s.objects
	s.objects = objects
	s.listed = true
	for name := range before {
		if _, still := objects[name]; !still {
			s.news[name] = true
			delete(s.written, name)
		}
	}
	for name, object := range objects {
		s.note(name, object, before)
		version := s.versionOf(object)
		if old, known := before[name]; known && s.versionOf(old) != version {
			s.written[name] = version // What came between, and was undone again, was not seen.
		}
	}
	s.mu.Unlock()
	s.changed()
	return nil
}

// Resync does nothing: the loop needs no reminders, see cache.ReflectorStore.
func (s *store[T]) Resync() error { return nil }

// note says that an object takes the place of the one before. The caller holds the lock.
func (s *store[T]) note(name model.Key, object T, before map[model.Key]T) {
	old, known := before[name]
	matters := !known || !s.sameRouting(old, object)
	s.news[name] = s.news[name] || matters
	if version := s.versionOf(object); known && matters && version != "" {
		s.written[name] = version
	}
}

// take returns what has changed since it was last called, with each object as it is now. It says of each whether the change matters to routing.
func (s *store[T]) take() map[model.Key]piece[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.news) == 0 {
		return nil
	}
	taken := make(map[model.Key]piece[T], len(s.news))
	for name, matters := range s.news {
		object, isThere := s.objects[name]
		taken[name] = piece[T]{object, isThere, matters, s.written[name]}
	}
	s.news = map[model.Key]bool{}
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

// find returns an object, if it is there.
func (s *store[T]) find(name model.Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, isThere := s.objects[name]
	return object, isThere
}

// isListed says whether a complete list has been there.
func (s *store[T]) isListed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}
