package kube

import (
	"maps"
	"sync"
	"time"
)

// forgetAfter is how long a wait is remembered that nobody ended, such as that of a deleted Rollout.
const forgetAfter = time.Hour

// Waits remembers since when things are waited for across calls, by a key. A process that starts anew begins anew,
// which only makes waits longer.
type Waits struct {
	mu    sync.Mutex
	begun map[string]begin
}

// begin is when a wait began, and what for.
type begin struct {
	at    time.Time
	about string
}

// NewWaits returns Waits in which nothing is waited for.
func NewWaits() *Waits { return &Waits{begun: map[string]begin{}} }

// Elapsed tells how long key is waited for, and whether this is the first time. Another about than before begins anew:
// something else is waited for.
func (w *Waits) Elapsed(key, about string) (waited time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	begun, waiting := w.begun[key]
	if !waiting || begun.about != about {
		maps.DeleteFunc(w.begun, func(_ string, old begin) bool { return now.Sub(old.at) > forgetAfter })
		w.begun[key] = begin{now, about}
		return 0, true
	}
	return now.Sub(begun.at), false
}

// End ends the wait for key.
func (w *Waits) End(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, key)
}
