package kube

import (
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxSilence is how long a watch may say nothing before the cache is no longer believed. The API server sends a
// bookmark each minute (apiserver pkg/storage/cacher, defaultBookmarkFrequency) on a watch that is alive, however idle.
const maxSilence = 75 * time.Second

// rereadPause is the pause between readings of an object that cannot be watched.
const rereadPause = 50 * time.Millisecond

// State is what a cache keeps of one object. It never changes once made.
type State interface {
	// Name is the object's namespace and name.
	Name() types.NamespacedName
	// Version is the object's resource version.
	Version() string
}

// Partial is a State that may lack what a read of the object tells: of an object that nobody uses, a cache need not
// keep all.
type Partial interface {
	// Whole says whether it lacks nothing.
	Whole() bool
}

// Marked is a State that Cache.Marked finds by marks.
type Marked interface {
	// Marks are the texts by which it is found.
	Marks() []string
}

// isWhole says whether a state lacks nothing.
func isWhole(state State) bool {
	partial, is := state.(Partial)
	return !is || partial.Whole()
}

// marksOf are the texts by which a state is found.
func marksOf(state State) []string {
	if marked, is := state.(Marked); is {
		return marked.Marks()
	}
	return nil
}

// Cache holds the newest known state of every object of one resource. It is believed only while a watch that began with
// a complete list is open and heard from. What it says is at most as old as an event takes to arrive; whoever needs
// more asks the API server.
type Cache[S State] struct {
	succeed func(next, known S) S // nil for states that know nothing of each other

	mu      sync.Mutex
	states  map[types.NamespacedName]S
	marked  map[string]map[types.NamespacedName]bool // which states have a mark
	changes map[types.NamespacedName]chan struct{}   // closed at the next change of the object
	open    bool                                     // the list is complete and the watch that follows it is open
	heard   time.Time                                // when the watch said something, at last
}

// NewCache returns an empty Cache, which is not believed until Follow fills it. succeed, which may be nil, makes of a
// state that follows a known one what is kept: the same with what the known one tells of its past.
func NewCache[S State](succeed func(next, known S) S) *Cache[S] {
	return &Cache[S]{
		succeed: succeed, states: map[types.NamespacedName]S{}, marked: map[string]map[types.NamespacedName]bool{},
		changes: map[types.NamespacedName]chan struct{}{},
	}
}

// Get returns the newest known state of an object, whether the whole of it is known, and whether all that can be
// believed.
func (c *Cache[S]) Get(name types.NamespacedName) (state S, known, believed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, known = c.states[name]
	return state, known && isWhole(state), c.believed()
}

// Marked returns the newest known states with a mark, in no order, and whether they can be believed to be all.
func (c *Cache[S]) Marked(mark string) (states []S, believed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.marked[mark] {
		states = append(states, c.states[name])
	}
	return states, c.believed()
}

// Recent returns an object from the cache where that can be believed, else as read reads it from the API server; cached
// tells which. That an object does not exist is always the API server's word. read puts into the cache what it is told.
func (c *Cache[S]) Recent(
	ctx context.Context, name types.NamespacedName, read func(context.Context) (S, error),
) (state S, cached bool, err error) {
	if state, known, believed := c.Get(name); believed && known {
		return state, true, nil
	}
	state, err = read(ctx)
	return state, false, err
}

// Await waits up to limit until decided says true of a state of an object, beginning with found, and returns the last
// state that it saw and whether decided said so of it. Where the cache cannot be believed, it reads the object every
// rereadPause. An error is that of read, or of ctx when it ended first.
func (c *Cache[S]) Await(
	ctx context.Context, name types.NamespacedName, found S, limit time.Duration, read func(context.Context) (S, error),
	decided func(S) bool,
) (last S, is bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed := c.Changed(name)
		state, known, believed := c.Get(name)
		if believed && known {
			found = state
		}
		if decided(found) {
			return found, true, nil
		}
		var reread <-chan time.Time
		if !believed {
			reread = time.After(rereadPause)
		}
		select {
		case <-ctx.Done():
			return found, false, ctx.Err()
		case <-timer.C:
			return found, false, nil
		case <-changed:
		case <-reread:
			if state, err = read(ctx); err != nil {
				return found, false, err
			}
			found = state
		}
	}
}

// Select returns the newest known states that match, in no order, and whether they can be believed to be all.
func (c *Cache[S]) Select(match func(S) bool) (states []S, believed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if match(state) {
			states = append(states, state)
		}
	}
	return states, c.believed()
}

func (c *Cache[S]) believed() bool { return c.open && time.Since(c.heard) < maxSilence }

// Changed returns a channel that is closed at the next change of an object. Taken before a Get, it misses nothing after
// it.
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

// Put takes a state of an object, whoever told it, unless a newer one is known. It returns the state with what is known
// of its past.
func (c *Cache[S]) Put(state S) S {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(state)
}

// remove takes note that the object was gone at version, unless it is known to have been there later.
func (c *Cache[S]) remove(name types.NamespacedName, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unset(name, version)
}

// replace takes a complete list, made at version. Objects that are not in it are gone, except those written since.
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

// set is where every new state goes through. The answer to a write can be here before the events of earlier writes.
func (c *Cache[S]) set(state S) S {
	known, is := c.states[state.Name()]
	if is && Older(state.Version(), known.Version()) {
		return state
	}
	if is && c.succeed != nil {
		state = c.succeed(state, known)
	}
	if is {
		c.unmark(known)
	}
	c.states[state.Name()] = state
	for _, mark := range marksOf(state) {
		if c.marked[mark] == nil {
			c.marked[mark] = map[types.NamespacedName]bool{}
		}
		c.marked[mark][state.Name()] = true
	}
	c.tell(state.Name())
	return state
}

// unmark takes a state that goes out of the marked ones.
func (c *Cache[S]) unmark(known S) {
	for _, mark := range marksOf(known) {
		delete(c.marked[mark], known.Name())
		if len(c.marked[mark]) == 0 {
			delete(c.marked, mark)
		}
	}
}

// unset is where every removal goes through.
func (c *Cache[S]) unset(name types.NamespacedName, version string) {
	known, is := c.states[name]
	if is && Older(version, known.Version()) {
		return
	}
	if is {
		c.unmark(known)
	}
	delete(c.states, name)
	c.tell(name)
}

// tell closes the channel of those who wait for a change.
func (c *Cache[S]) tell(name types.NamespacedName) {
	if change, waited := c.changes[name]; waited {
		close(change)
		delete(c.changes, name)
	}
}

// alive says that the watch, which goes on from a complete list, has been opened or has said something.
func (c *Cache[S]) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.heard = true, time.Now()
}

// lost says that the watch has ended.
func (c *Cache[S]) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = false
}

// forget empties the cache.
func (c *Cache[S]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.states)
	clear(c.marked)
}

// Older says whether resource version a is known to come before b. They are decimal numbers that grow with each write
// of any object of one resource (KEP-5504, "comparable resource version"); of others nothing is known.
func Older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
