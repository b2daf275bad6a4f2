package httpso

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxSilence is how long a watch may say nothing before the cache is no longer believed. The API server sends a bookmark each minute (apiserver
// pkg/storage/cacher, defaultBookmarkFrequency) on a watch that is alive, however idle.
const maxSilence = 75 * time.Second

// cache holds the newest known state of every HTTPScaledObject: what a watch tells and, ahead of it, the answers to own reads and writes. It is believed
// only while a watch that began with a complete list is open and heard from. What it says is at most as old as an event takes to arrive; whoever needs
// more asks the API server.
type cache struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*object
	changes map[types.NamespacedName]chan struct{} // closed at the next change of the object
	open    bool                                   // the list is complete and the watch that follows it is open
	heard   time.Time                              // when the watch said something, at last
}

func newCache() *cache {
	return &cache{objects: map[types.NamespacedName]*object{}, changes: map[types.NamespacedName]chan struct{}{}}
}

// get returns the newest known state of an object, nil where it is not known to exist, and whether that can be believed.
func (c *cache) get(name types.NamespacedName) (known *object, believed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[name], c.open && time.Since(c.heard) < maxSilence
}

// changed returns a channel that is closed at the next change of an object. Taken before a get, it misses nothing after it.
func (c *cache) changed(name types.NamespacedName) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	change, waited := c.changes[name]
	if !waited {
		change = make(chan struct{})
		c.changes[name] = change
	}
	return change
}

// put takes a state of an object, whoever told it, unless a newer one is known. It returns the state with what is known of its past.
func (c *cache) put(state *object) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(state.name, state, state.resourceVersion)
}

// remove takes note that the object was gone at resourceVersion, unless it is known to have been there later.
func (c *cache) remove(name types.NamespacedName, resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(name, nil, resourceVersion)
}

// replace takes a complete list, made at resourceVersion. Objects that are not in it are gone, except those written since.
func (c *cache) replace(list []*object, resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listed := make(map[types.NamespacedName]bool, len(list))
	for _, state := range list {
		listed[state.name] = true
		c.set(state.name, state, state.resourceVersion)
	}
	for name := range c.objects {
		if !listed[name] {
			c.set(name, nil, resourceVersion)
		}
	}
}

// set is where every change goes through; nil removes the object. The answer to a write can be here before the events of earlier writes.
func (c *cache) set(name types.NamespacedName, state *object, resourceVersion string) *object {
	known := c.objects[name]
	if known != nil && older(resourceVersion, known.resourceVersion) {
		return state
	}
	if state == nil {
		delete(c.objects, name)
	} else {
		state = state.after(known, time.Now())
		c.objects[name] = state
	}
	if change, waited := c.changes[name]; waited {
		close(change)
		delete(c.changes, name)
	}
	return state
}

// alive says that the watch, which goes on from a complete list, has been opened or has said something.
func (c *cache) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.heard = true, time.Now()
}

// lost says that the watch has ended.
func (c *cache) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = false
}
