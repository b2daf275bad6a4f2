package kube

import (
	"maps"
	"sync"
	"time"
)

// forgetAfter is how long a wait is kept that isn't ended, such as that of a deleted Rollout.
const forgetAfter = time.Hour

// Waits measures how long a condition has been awaited over several calls, by a key. After a restart of the process all
// waits begin again, which makes them only longer.
type Waits struct {
	mu    sync.Mutex
	waits map[string]pending
}

// pending is the start of a wait and its subject.
type pending struct {
	at      time.Time
	subject string
}

// NewWaits returns Waits without a wait.
func NewWaits() *Waits { return &Waits{waits: map[string]pending{}} }

// Elapsed returns the duration of the wait for key, and whether this call began it. A wait with another subject than
// before begins again.
func (w *Waits) Elapsed(key, subject string) (waited time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	current, ok := w.waits[key]
	if !ok || current.subject != subject {
		maps.DeleteFunc(w.waits, func(_ string, old pending) bool { return now.Sub(old.at) > forgetAfter })
		w.waits[key] = pending{now, subject}
		return 0, true
	}
	return now.Sub(current.at), false
}

// End ends the wait for key.
func (w *Waits) End(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, key)
}
