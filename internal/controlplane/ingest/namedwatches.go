package ingest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// maxNamedLists is the number of named objects of one kind that are listed at the same time. Each may have more than a
// megabyte, of which little is kept.
const maxNamedLists = 4

// namedWatches lists and watches each object of a kind that an HTTPScaledObject names, and no other one. Permission for
// named objects is therefore sufficient, and memory contains nothing that no proxy needs.
type namedWatches[T any] struct {
	// listWatch returns the list and watch of one object; nil disables the kind.
	listWatch func(model.Key) cache.ListerWatcherWithContext
	// newStore returns an empty store, and newSource a source that fills it. wake triggers a pass and never blocks.
	newStore  func(notify func()) *store[T]
	newSource func(model.Key, *store[T]) *source
	wake      func()
	slots     chan struct{} // has an element for each list that is running

	mu      sync.Mutex
	running map[model.Key]*namedWatch[T]
	// byNamespace are the keys of running.
	byNamespace map[string]map[model.Key]struct{}
	changed     map[model.Key]struct{} // since the last take
}

// namedWatch is the watch of one object.
type namedWatch[T any] struct {
	store  *store[T] // nil if the kind is disabled
	source *source   // nil if the kind is disabled
	stop   context.CancelFunc
}

// newNamedWatches returns namedWatches without a watch; the caller sets the remaining fields.
func newNamedWatches[T any](
	listWatch func(model.Key) cache.ListerWatcherWithContext, wake func(),
) *namedWatches[T] {
	return &namedWatches[T]{
		listWatch: listWatch, wake: wake, slots: make(chan struct{}, maxNamedLists),
		running: map[model.Key]*namedWatch[T]{}, byNamespace: map[string]map[model.Key]struct{}{},
		changed: map[model.Key]struct{}{},
	}
}

// setWatched starts and stops watches until exactly the wanted objects are watched. All watches end with ctx.
func (w *namedWatches[T]) setWatched(ctx context.Context, wanted map[model.Key]struct{}, start func(func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.running {
		if _, isWanted := wanted[key]; !isWanted {
			w.end(key)
		}
	}
	for key := range wanted {
		if w.running[key] != nil {
			continue
		}
		watch := &namedWatch[T]{stop: func() {}}
		w.running[key] = watch
		if w.byNamespace[key.Namespace] == nil {
			w.byNamespace[key.Namespace] = map[model.Key]struct{}{}
		}
		w.byNamespace[key.Namespace][key] = struct{}{}
		if w.listWatch == nil {
			w.changed[key] = struct{}{}
			w.wake()
			continue
		}
		watch.store = w.newStore(func() { w.markChanged(key) })
		watch.source = w.newSource(key, watch.store)
		watch.source.notify, watch.source.slots = func() { w.markChanged(key) }, w.slots
		watchCtx, cancel := context.WithCancel(ctx) //nolint:gosec // end calls it.
		watch.stop = cancel
		start(func() { watch.source.run(watchCtx) })
	}
}

// end ends a watch. The caller holds the lock.
func (w *namedWatches[T]) end(key model.Key) {
	w.running[key].stop()
	delete(w.running, key)
	if delete(w.byNamespace[key.Namespace], key); len(w.byNamespace[key.Namespace]) == 0 {
		delete(w.byNamespace, key.Namespace)
	}
	w.changed[key] = struct{}{}
	w.wake()
}

// markChanged records that an object may have changed.
func (w *namedWatches[T]) markChanged(key model.Key) {
	w.mu.Lock()
	w.changed[key] = struct{}{}
	w.mu.Unlock()
	w.wake()
}

// take returns the objects that may have changed since the previous call, each with its watch, nil if it is no longer
// watched.
func (w *namedWatches[T]) take() map[model.Key]*namedWatch[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) == 0 {
		return nil
	}
	changes := make(map[model.Key]*namedWatch[T], len(w.changed))
	for key := range w.changed {
		changes[key] = w.running[key]
	}
	w.changed = map[model.Key]struct{}{}
	return changes
}

// get returns the watch of an object, nil if it is not watched.
func (w *namedWatches[T]) get(key model.Key) *namedWatch[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[key]
}

// keys returns the watched objects, in no order.
func (w *namedWatches[T]) keys() []model.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.running))
}

// stores returns the stores of the watched objects of a namespace.
func (w *namedWatches[T]) stores(namespace string) map[model.Key]*store[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	stores := make(map[model.Key]*store[T], len(w.byNamespace[namespace]))
	for key := range w.byNamespace[namespace] {
		if watch := w.running[key]; watch.store != nil {
			stores[key] = watch.store
		}
	}
	return stores
}

// restart ends the watch of an object. The next call of setWatched starts it again, with a new list.
func (w *namedWatches[T]) restart(key model.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[key] != nil {
		w.end(key)
	}
}
