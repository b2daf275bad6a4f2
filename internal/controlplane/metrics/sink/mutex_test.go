package sink

import (
	"slices"
	"sync"
	"testing"
)

// TestDoDoesNotWait requires that a caller of Do returns while another one holds the mutex, and that the holder makes
// its changes in order.
func TestDoDoesNotWait(t *testing.T) {
	t.Parallel()
	var m mutex
	var made []int
	m.Lock()
	for i := range 3 {
		m.Do(func() { made = append(made, i) })
	}
	if len(made) > 0 {
		t.Errorf("changes %v were made while another caller held the mutex", made)
	}
	m.Unlock()
	m.Do(func() { made = append(made, 3) })
	m.Lock()
	defer m.Unlock()
	if want := []int{0, 1, 2, 3}; !slices.Equal(made, want) {
		t.Errorf("changes %v, want %v", made, want)
	}
}

// TestNoChangeIsLost has callers of Do compete with holders. All changes are made, each by one holder, although no one
// locks the mutex afterwards.
func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	const callers, changes = 8, 1000
	var m mutex
	var made int // guarded by m
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for range changes {
				m.Do(func() { made++ })
			}
		})
		running.Go(func() {
			for range changes {
				m.Lock()
				m.Unlock() //nolint:staticcheck // an empty critical section is what the callers of Do meet
			}
		})
	}
	running.Wait()
	if m.hasPending() || made != callers*changes {
		t.Errorf("%d changes were made, want %d; some are left: %t", made, callers*changes, m.hasPending())
	}
}
