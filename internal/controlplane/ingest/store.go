package ingest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// store contains the objects of one list and watch. It is the cache.ReflectorStore of a reflector, which writes it;
// the loop takes the changes. Stored values are immutable and only ever replaced.
type store[T any] struct {
	// parse returns the name of an object and its reduced form, and does not retain the object. An error means that
	// the object is of another kind.
	parse func(object any) (model.Key, T, error)
	// isSameRouting reports whether the difference between two versions is irrelevant to routing, such as a change of
	// status.
	isSameRouting func(before, after T) bool
	// versionOf returns the resource version of an object, "" if it is not stored.
	versionOf func(T) string
	// budget, if not nil, bounds the memory of the objects. Only the store of HTTPScaledObjects has one.
	budget *budget
	// notify is called after every change without a lock held. It must not block.
	notify func()

	mu      sync.Mutex
	objects map[model.Key]T
	listed  bool
	pending map[model.Key]bool // changes since the last take; true if one affects routing
	// routingVersions are the resource versions of the last observed change of each object that may have affected
	// routing.
	routingVersions map[model.Key]string
}

// newStore returns an empty store that has not been listed. reduce returns the stored form of an object.
func newStore[K metav1.Object, T any](
	reduce func(K) T, isSameRouting func(before, after T) bool, notify func(),
) *store[T] {
	return &store[T]{
		parse: func(object any) (name model.Key, reduced T, err error) {
			typed, ok := object.(K)
			if !ok { // The reflector checks this too, so the store was created for another kind.
				return name, reduced, fmt.Errorf("store of %T received %T", typed, object)
			}
			return model.Key{Namespace: typed.GetNamespace(), Name: typed.GetName()}, reduce(typed), nil
		},
		isSameRouting: isSameRouting, versionOf: func(T) string { return "" }, notify: notify,
		objects: map[model.Key]T{}, pending: map[model.Key]bool{}, routingVersions: map[model.Key]string{},
	}
}

// Add stores an object that the watch reports for the first time, see cache.ReflectorStore.
func (s *store[T]) Add(object any) error {
	name, reduced, err := s.parse(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.put(name, reduced)
	s.mu.Unlock()
	s.notify()
	return nil
}

// put stores an object, within the budget. The caller holds the lock.
func (s *store[T]) put(name model.Key, object T) {
	stubs := s.withinBudget(s.objects[name], object)
	if stub, isOver := stubs[name]; isOver {
		object = stub
	}
	s.record(name, object, s.objects)
	s.objects[name] = object
	for other, stub := range stubs {
		if other != name {
			s.objects[other], s.pending[other] = stub, true
		}
	}
}

// withinBudget records that an object replaces another one, either of which may be the zero value, and returns what to
// store instead of objects that exceed the budget since. The caller holds the lock.
func (s *store[T]) withinBudget(before, after T) map[model.Key]T {
	if s.budget == nil {
		return nil
	}
	old, _ := any(before).(*httpv1alpha1.HTTPScaledObject)
	now, _ := any(after).(*httpv1alpha1.HTTPScaledObject)
	replaced := map[model.Key]T{}
	for whole, stub := range s.budget.replace(old, now) {
		replaced[keyOf(whole)], _ = any(stub).(T)
	}
	return replaced
}

// restore replaces a stub by the whole object, unless another version was stored meanwhile, which it reports by false.
func (s *store[T]) restore(name model.Key, stub, object any) bool {
	_, reduced, err := s.parse(object)
	if err != nil {
		return false
	}
	s.mu.Lock()
	current, exists := s.objects[name]
	isSame := exists && any(current) == stub
	if isSame {
		s.put(name, reduced)
	}
	s.mu.Unlock()
	s.notify()
	return isSame
}

// Update stores a new version of an object, see cache.ReflectorStore.
func (s *store[T]) Update(object any) error { return s.Add(object) }

// Delete removes an object, see cache.ReflectorStore.
func (s *store[T]) Delete(object any) error {
	name, _, err := s.parse(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	var none T
	s.withinBudget(s.objects[name], none)
	delete(s.objects, name)
	delete(s.routingVersions, name)
	s.pending[name] = true
	s.mu.Unlock()
	s.notify()
	return nil
}

// Replace replaces all objects by a complete list, see cache.ReflectorStore.
func (s *store[T]) Replace(list []any, _ string) error {
	objects := make(map[model.Key]T, len(list))
	for _, object := range list {
		name, reduced, err := s.parse(object)
		if err != nil {
			return err
		}
		objects[name] = reduced
	}
	s.mu.Lock()
	s.budget.reset()
	for _, object := range slices.Collect(maps.Values(objects)) {
		var none T
		maps.Copy(objects, s.withinBudget(none, object))
	}
	before := s.objects
	s.objects = objects
	s.listed = true
	for name := range before {
		if _, exists := objects[name]; !exists {
			s.pending[name] = true
			delete(s.routingVersions, name)
		}
	}
	for name, object := range objects {
		s.record(name, object, before)
		version := s.versionOf(object)
		if old, existed := before[name]; existed && s.versionOf(old) != version {
			s.routingVersions[name] = version // Intermediate versions that were reverted were not observed.
		}
	}
	s.mu.Unlock()
	s.notify()
	return nil
}

// Resync does nothing, because the loop needs no periodic updates, see cache.ReflectorStore.
func (s *store[T]) Resync() error { return nil }

// record records that an object replaces its previous version. The caller holds the lock.
func (s *store[T]) record(name model.Key, object T, before map[model.Key]T) {
	old, existed := before[name]
	affectsRouting := !existed || !s.isSameRouting(old, object)
	s.pending[name] = s.pending[name] || affectsRouting
	if version := s.versionOf(object); existed && affectsRouting && version != "" {
		s.routingVersions[name] = version
	}
}

// take returns the current version of each object that changed since the previous call, and whether the change
// affects routing.
func (s *store[T]) take() map[model.Key]objectChange[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return nil
	}
	changes := make(map[model.Key]objectChange[T], len(s.pending))
	for name, affectsRouting := range s.pending {
		object, exists := s.objects[name]
		changes[name] = objectChange[T]{object, exists, affectsRouting, s.routingVersions[name]}
	}
	s.pending = map[model.Key]bool{}
	return changes
}

// objectChange is a change of one object.
type objectChange[T any] struct {
	object         T
	exists         bool // false for a deleted object
	affectsRouting bool
	// routingVersion is the resource version of the last change that may have affected routing, "" if none was observed.
	routingVersion string
}

// get returns an object and whether it exists.
func (s *store[T]) get(name model.Key) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, exists := s.objects[name]
	return object, exists
}

// swap replaces an object, unless another version was stored meanwhile, which it reports by false. isSameRouting must be
// equality.
func (s *store[T]) swap(name model.Key, before, after T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, exists := s.objects[name]
	if !exists || !s.isSameRouting(current, before) {
		return false
	}
	s.objects[name] = after
	return true
}

// isListed reports whether a complete list was stored.
func (s *store[T]) isListed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// merge returns the objects of several stores of one kind.
func merge[T any](stores []*store[T]) map[model.Key]T {
	all := map[model.Key]T{}
	for _, s := range stores {
		s.mu.Lock()
		maps.Copy(all, s.objects)
		s.mu.Unlock()
	}
	return all
}
