package sink

import "sync"

// mutex is a mutex that a caller of Do does not wait for: its holder makes the changes of others before it unlocks. The
// zero value is unlocked.
type mutex struct {
	holder sync.Mutex

	mu      sync.Mutex // guards pending, and is never held for longer than that takes
	pending []func()
}

// Lock locks the mutex. All changes of earlier calls of Do have been made then.
func (m *mutex) Lock() {
	m.holder.Lock()
	m.apply()
}

// Unlock makes the changes that others have passed to Do, and unlocks the mutex.
func (m *mutex) Unlock() {
	for {
		m.apply()
		m.holder.Unlock()
		// A change after apply found the mutex locked, so it was left to this caller or to the next holder.
		if !m.hasPending() || !m.holder.TryLock() {
			return
		}
	}
}

// Do makes a change while no one else holds the mutex, after those of earlier calls: at once if the mutex is unlocked,
// and otherwise its holder makes it.
func (m *mutex) Do(change func()) {
	m.mu.Lock()
	m.pending = append(m.pending, change)
	m.mu.Unlock()
	if m.holder.TryLock() {
		m.Unlock()
	}
}

// apply makes the pending changes in their order. The caller holds the mutex.
func (m *mutex) apply() {
	m.mu.Lock()
	changes := m.pending
	m.pending = nil
	m.mu.Unlock()
	for _, change := range changes {
		change()
	}
}

// hasPending reports whether there are changes that no one has made.
func (m *mutex) hasPending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending) > 0
}
