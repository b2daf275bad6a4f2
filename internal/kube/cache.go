package kube

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// maxSilence is how long a watch can deliver no event before the cache counts as stale. The API server sends a bookmark
// each minute on an idle watch (apiserver pkg/storage/cacher, defaultBookmarkFrequency).
const maxSilence = 75 * time.Second

// rereadPause is the pause between reads of an object that cannot be watched.
const rereadPause = 50 * time.Millisecond

// State is the cached part of one object. It is immutable.
type State interface {
	// Name returns the namespace and name of the object.
	Name() types.NamespacedName
	// Version returns the resource version of the object.
	Version() string
}

// Partial is a State that may lack parts of the object: a cache doesn't have to keep all of an object that no Rollout
// uses.
type Partial interface {
	// IsComplete reports whether the State has all parts.
	IsComplete() bool
}

// Indexed is a State with keys for the index of Cache.ByIndexKey.
type Indexed interface {
	// IndexKeys returns the keys.
	IndexKeys() []string
}

// isComplete reports whether a state has all parts.
func isComplete(state State) bool {
	partial, ok := state.(Partial)
	return !ok || partial.IsComplete()
}

// indexKeys returns the keys of a state in the index.
func indexKeys(state State) []string {
	if indexed, ok := state.(Indexed); ok {
		return indexed.IndexKeys()
	}
	return nil
}

// Cache holds the newest known state of every object of one resource. It is current while a watch that began with a
// complete list is open and delivers events. A current cache is as old as an event takes to arrive; a caller that needs
// a newer state reads the object.
type Cache[S State] struct {
	merge func(next, known S) S // nil if states have no history

	mu        sync.Mutex
	states    map[types.NamespacedName]S
	index     map[string]map[types.NamespacedName]bool // the states by index key
	changes   map[types.NamespacedName]chan struct{}   // closed at the next change of the object
	open      bool                                     // whether the watch that follows a complete list is open
	isAbsent  bool                                     // whether the API server last answered that it does not serve the resource
	lastEvent time.Time                                // when the watch last delivered an event
}

// NewCache returns an empty Cache, which isn't current until Follow fills it. merge, which can be nil, returns the
// state to keep when next follows known: next with the history in known.
func NewCache[S State](merge func(next, known S) S) *Cache[S] {
	return &Cache[S]{
		merge: merge, states: map[types.NamespacedName]S{}, index: map[string]map[types.NamespacedName]bool{},
		changes: map[types.NamespacedName]chan struct{}{},
	}
}

// Get returns the newest known state of an object, whether that is complete, and whether the cache is current.
func (c *Cache[S]) Get(name types.NamespacedName) (state S, known, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, known = c.states[name]
	return state, known && isComplete(state), c.isCurrent()
}

// ByIndexKey returns the newest known states with a key in the index, in no order, and whether the cache is current.
func (c *Cache[S]) ByIndexKey(key string) (states []S, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.index[key] {
		states = append(states, c.states[name])
	}
	return states, c.isCurrent()
}

// Recent returns an object from the cache if the cache is current, else from read, which reads it from the API server
// and puts it into the cache. cached reports the source. Only read can find that an object doesn't exist.
func (c *Cache[S]) Recent(
	ctx context.Context, name types.NamespacedName, read func(context.Context) (S, error),
) (state S, cached bool, err error) {
	if state, known, current := c.Get(name); current && known {
		return state, true, nil
	}
	state, err = read(ctx)
	return state, false, err
}

// Await waits up to limit until done returns true for a state of an object, beginning with initial. It returns the last
// state and whether done returned true for it. While the cache isn't current, Await reads the object every rereadPause.
// An error is that of read, or that of ctx if it ended first.
func (c *Cache[S]) Await(
	ctx context.Context, name types.NamespacedName, initial S, limit time.Duration,
	read func(context.Context) (S, error),
	done func(S) bool,
) (last S, isDone bool, err error) {
	last = initial
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := c.Changed(name)
		state, known, current := c.Get(name)
		if current && known {
			last = state
		}
		if done(last) {
			return last, true, nil
		}
		var reread <-chan time.Time
		if !current {
			reread = time.After(rereadPause)
		}
		select {
		case <-ctx.Done():
			return last, false, ctx.Err()
		case <-timer.C:
			return last, false, nil
		case <-changed:
		case <-reread:
			if state, err = read(ctx); err != nil {
				return last, false, err
			}
			last = state
		}
	}
}

// Select returns the newest known states that match, in no order, and whether the cache is current.
func (c *Cache[S]) Select(match func(S) bool) (states []S, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if match(state) {
			states = append(states, state)
		}
	}
	return states, c.isCurrent()
}

// IsAbsent reports whether the API server answered the last list or watch that it does not serve the resource, so that
// there are no objects: a CRD is not installed.
func (c *Cache[S]) IsAbsent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isAbsent
}

func (c *Cache[S]) isCurrent() bool { return c.open && time.Since(c.lastEvent) < maxSilence }

// Changed returns a channel that is closed at the next change of an object. A caller that calls it before Get misses no
// change.
func (c *Cache[S]) Changed(name types.NamespacedName) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	change, waited := c.changes[name]
	if !waited {
		change = make(chan struct{})
		c.changes[name] = change
	}
	return change
}

// Put stores a state of an object, unless a newer one is known. It returns the state with its history.
func (c *Cache[S]) Put(state S) S {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(state)
}

// remove deletes an object that didn't exist at version, unless a later state of it is known.
func (c *Cache[S]) remove(name types.NamespacedName, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unset(name, version)
}

// replace stores a complete list of version. It deletes objects that aren't in the list, except those written since.
func (c *Cache[S]) replace(list []S, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed := make(map[types.NamespacedName]bool, len(list))
	for _, state := range list {
		listed[state.Name()] = true
		c.set(state)
	}
	for name := range c.states {
		if !listed[name] {
			c.unset(name, version)
		}
	}
}

// set stores a state. The response to a write can arrive before the events of earlier writes.
func (c *Cache[S]) set(state S) S {
	known, exists := c.states[state.Name()]
	if exists && Older(state.Version(), known.Version()) {
		return state
	}
	if exists && c.merge != nil {
		state = c.merge(state, known)
	}
	if exists {
		c.unindex(known)
	}
	c.states[state.Name()] = state
	for _, key := range indexKeys(state) {
		if c.index[key] == nil {
			c.index[key] = map[types.NamespacedName]bool{}
		}
		c.index[key][state.Name()] = true
	}
	c.notify(state.Name())
	return state
}

// unindex removes a state from the index.
func (c *Cache[S]) unindex(known S) {
	for _, key := range indexKeys(known) {
		delete(c.index[key], known.Name())
		if len(c.index[key]) == 0 {
			delete(c.index, key)
		}
	}
}

// unset deletes the state of an object that didn't exist at version.
func (c *Cache[S]) unset(name types.NamespacedName, version string) {
	known, exists := c.states[name]
	if exists && Older(version, known.Version()) {
		return
	}
	if exists {
		c.unindex(known)
	}
	delete(c.states, name)
	c.notify(name)
}

// notify closes the channel of Changed.
func (c *Cache[S]) notify(name types.NamespacedName) {
	if change, waited := c.changes[name]; waited {
		close(change)
		delete(c.changes, name)
	}
}

// markAlive records that the watch was opened or has delivered an event.
func (c *Cache[S]) markAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.isAbsent, c.lastEvent = true, false, time.Now()
}

// markClosed records that the watch has ended.
func (c *Cache[S]) markClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = false
}

// markFailed records that a list or watch has failed.
func (c *Cache[S]) markFailed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.isAbsent = false, apierrors.IsNotFound(err)
}

// clear empties the cache.
func (c *Cache[S]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.states)
	clear(c.index)
}

// Older reports whether resource version a is known to be before b. Resource versions are decimal numbers that increase
// with each write of any object of one resource (KEP-5504, "comparable resource version"). Older returns false if one
// of them is not a number.
func Older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
