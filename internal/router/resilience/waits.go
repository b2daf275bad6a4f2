package resilience

import (
	"maps"
	"sync"
	"time"
)

// forgetAfter is how long a wait is remembered that nobody ended, such as that of a deleted Rollout.
const forgetAfter = time.Hour

// Waits remembers since when things are waited for across calls, by a key. A process that starts anew begins anew, which only makes waits longer.
type Waits struct {
	mu    sync.Mutex
	begun map[string]time.Time
}

// NewWaits returns Waits in which nothing is waited for.
func NewWaits() *Waits { return &Waits{begun: map[string]time.Time{}} }

// Elapsed tells how long key is waited for, and whether this is the first time.
func (w *Waits) Elapsed(key string) (waited time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	begin, waiting := w.begun[key]
	if !waiting {
		maps.DeleteFunc(w.begun, func(_ string, begin time.Time) bool { return now.Sub(begin) > forgetAfter })
		begin = now
		w.begun[key] = now
	}
	return now.Sub(begin), !waiting
}

// End ends the wait for key.
func (w *Waits) End(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, key)
}
