package testbed

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// leasePause is the time between two reads of the Lease, which is renewed every few seconds.
	leasePause = time.Second
	// withoutLease is what the router logs when it considers the interceptors gone.
	withoutLease = "no interceptor renews its Lease"
)

// LeaseWatcher records the time between renewals of the interceptor's Lease, by the times in the Lease. The router
// detects by this Lease that an interceptor writes reports.
type LeaseWatcher struct {
	testbed  *Testbed
	began    time.Time
	mu       sync.Mutex
	renewed  time.Time
	gap      time.Duration
	duration time.Duration
}

// WatchLease watches the Lease until the test ends.
func (b *Testbed) WatchLease(t *testing.T) *LeaseWatcher {
	t.Helper()
	w := &LeaseWatcher{testbed: b, began: time.Now()}
	background(t, func(ctx context.Context) error {
		ticks := time.NewTicker(leasePause)
		defer ticks.Stop()
		for ctx.Err() == nil {
			w.read(ctx)
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
		return nil
	})
	return w
}

// CheckRouter checks that the router has always considered the interceptors present, unless their Lease has expired.
func (w *LeaseWatcher) CheckRouter(t *testing.T) {
	t.Helper()
	log, err := w.testbed.Kubectl(t.Context(), "kubectl", "-n", "argo-rollouts", "logs", "deployment/argo-rollouts",
		"--since-time", w.began.UTC().Format(time.RFC3339))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, withoutLease) && !w.hasLapsed() {
			t.Errorf("the router considered the interceptors gone, although their Lease was renewed after %s at most: %s",
				w.longest(), line)
		}
	}
}

// read reads the Lease. While the API server does not respond, it records nothing.
func (w *LeaseWatcher) read(ctx context.Context) {
	var lease struct {
		Spec struct {
			RenewTime            time.Time `json:"renewTime"`
			LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
		} `json:"spec"`
	}
	if w.testbed.Get(ctx, interceptorLease, &lease) == nil {
		w.add(lease.Spec.RenewTime, time.Duration(lease.Spec.LeaseDurationSeconds)*time.Second)
	}
}

// add records a state of the Lease.
func (w *LeaseWatcher) add(renewed time.Time, duration time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.renewed.IsZero() {
		w.gap = max(w.gap, renewed.Sub(w.renewed))
	}
	// A released Lease has a duration of 1 s.
	w.renewed, w.duration = renewed, max(w.duration, duration)
}

// longest returns the longest time between two renewals.
func (w *LeaseWatcher) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap
}

// hasLapsed reports whether the Lease has expired.
func (w *LeaseWatcher) hasLapsed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.duration > 0 && w.gap > w.duration
}
