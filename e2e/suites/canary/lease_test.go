package canary

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

const (
	// interceptorLease is the Lease by which the router detects that an interceptor writes reports.
	interceptorLease = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
	// leasePause is the time between two reads of the Lease, which is renewed every few seconds.
	leasePause = time.Second
)

// leaseWatcher records the time between renewals of the interceptor's Lease, by the times in the Lease.
type leaseWatcher struct {
	mu       sync.Mutex
	renewed  time.Time
	gap      time.Duration
	duration time.Duration
}

// watchLease watches the Lease until the test ends.
func watchLease(t *testing.T, b *testbed.Testbed) *leaseWatcher {
	t.Helper()
	w := new(leaseWatcher)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.NewTicker(leasePause)
		defer ticks.Stop()
		for ctx.Err() == nil {
			w.read(ctx, b)
			select {
			case <-ctx.Done():
			case <-ticks.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// read reads the Lease. While the API server does not respond, it records nothing.
func (w *leaseWatcher) read(ctx context.Context, b *testbed.Testbed) {
	var lease struct {
		Spec struct {
			RenewTime            time.Time `json:"renewTime"`
			LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
		} `json:"spec"`
	}
	if b.Get(ctx, interceptorLease, &lease) == nil {
		w.add(lease.Spec.RenewTime, time.Duration(lease.Spec.LeaseDurationSeconds)*time.Second)
	}
}

// add records a state of the Lease.
func (w *leaseWatcher) add(renewed time.Time, duration time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.renewed.IsZero() {
		w.gap = max(w.gap, renewed.Sub(w.renewed))
	}
	// A released Lease has a duration of 1 s.
	w.renewed, w.duration = renewed, max(w.duration, duration)
}

// longest returns the longest time between two renewals.
func (w *leaseWatcher) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap
}

// hasLapsed reports whether the Lease has expired.
func (w *leaseWatcher) hasLapsed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.duration > 0 && w.gap > w.duration
}

func TestLeaseWatch(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		seconds []int
		want    bool
	}{
		{name: "never seen"},
		{name: "renewed in time", seconds: []int{0, 5, 5, 10, 20}},
		{name: "renewed too late", seconds: []int{0, 5, 21, 26}, want: true},
	}
	for _, tt := range tests {
		w := new(leaseWatcher)
		for _, second := range tt.seconds {
			w.add(start.Add(time.Duration(second)*time.Second), 15*time.Second)
		}
		if got := w.hasLapsed(); got != tt.want {
			t.Errorf("%s: lapsed %v, want %v", tt.name, got, tt.want)
		}
	}
}
