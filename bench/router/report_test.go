package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
)

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		changed time.Duration // beside a bare PATCH of 10 ms
		writes  int
		want    string
	}{
		"within the limits": {15 * time.Millisecond, 0, ""},
		"too slow":          {16 * time.Millisecond, 0, "is 1.60, at most 1.50 is allowed"},
		"a needless write":  {10 * time.Millisecond, 1, "is 1.00, at most 0.00 is allowed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := report{Calls: 1, Repeats: 1}
			for _, callers := range workers() {
				took := func(d time.Duration) stopwatch.Sample {
					return stopwatch.Sample{Took: []time.Duration{d}, Whole: time.Second}
				}
				results.add(callers, map[string]sample{
					barePatch: {Sample: took(10 * time.Millisecond)}, setChanged: {Sample: took(test.changed)},
					setSame: {Sample: took(1), writes: test.writes}, verify: {Sample: took(1)}, bareCall: {Sample: took(1)},
				})
			}
			results.summarise()
			switch err := figures.Verdict(results.Limits); {
			case (err != nil) != (test.want != ""):
				t.Errorf("verdict is %v", err)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("verdict %q lacks %q", err, test.want)
			}
		})
	}
}
