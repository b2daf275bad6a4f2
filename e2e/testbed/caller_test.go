package testbed

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// The canary may answer from the promotion on, which the test may see late.
func TestMisrouted(t *testing.T) {
	moment := time.Now()
	at := func(seconds float64, color, stable string) call {
		due := moment.Add(time.Duration(seconds * float64(time.Second)))
		return call{load.Result{Due: due, Color: color}, stable}
	}
	tests := []struct {
		name  string
		calls []call
		want  int
	}{
		{"none", nil, 0},
		{"only the stable version", []call{at(0, "v1", "a"), at(1, "v1", "a")}, 0},
		{"a canary that is never promoted", []call{at(0, "v1", "a"), at(1, "v2", "a"), at(2, "v1", "a")}, 1},
		{"after the promotion", []call{at(0, "v1", "a"), at(1, "v1", "b"), at(2, "v2", "b")}, 0},
		{"the watch is late", []call{at(0, "v1", "a"), at(0.5, "v2", "a"), at(1, "v2", "b")}, 0},
		{"long before the promotion", []call{at(0, "v2", "a"), at(2, "v1", "b"), at(3, "v2", "b")}, 1},
	}
	for _, tt := range tests {
		if got := misrouted(tt.calls, "v2"); len(got) != tt.want {
			t.Errorf("%s: %d calls, want %d", tt.name, len(got), tt.want)
		}
	}
}
