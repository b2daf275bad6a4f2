package autowire

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// Only failed requests that were due before the change or too long after it count.
func TestOutside(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	results := []load.Result{
		{Due: at(0), Err: load.ErrAnswer},
		{Due: at(1)},
		{Due: at(2), Err: load.ErrAnswer},
		{Due: at(3), Err: load.ErrAnswer},
		{Due: at(4)},
	}
	if got := countOutside(results, at(1), at(3)); got != 2 {
		t.Errorf("%d requests failed outside, want 2", got)
	}
	if got := countOutside(results, at(1), at(1)); got != 3 {
		t.Errorf("%d requests failed without a gap, want 3", got)
	}
}
