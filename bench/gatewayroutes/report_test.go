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
		changed  time.Duration // beside a bare GET and PUT of 10 ms
		writes   int           // of a changed SetWeight, for each route
		requests int           // of an unchanged one
		want     string
	}{
		"within the limits":  {15 * time.Millisecond, 1, 0, ""},
		"too slow":           {16 * time.Millisecond, 1, 0, "is 1.60, at most 1.50 is allowed"},
		"a needless write":   {10 * time.Millisecond, 2, 0, "is 2.00, at most 1.00 is allowed"},
		"a needless request": {10 * time.Millisecond, 1, 1, "is 1.00, at most 0.00 is allowed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took := func(d time.Duration) stopwatch.Sample {
				return stopwatch.Sample{Took: []time.Duration{d}, Whole: time.Second}
			}
			results := report{Rollouts: 1, Repeats: 1}
			for _, routes := range sizes() {
				results.add(routes, map[string]sample{
					bareGetPut: {Sample: took(10 * time.Millisecond), reads: routes, writes: routes},
					setChanged: {Sample: took(test.changed), writes: test.writes * routes},
					setSame:    {Sample: took(1), reads: test.requests},
					verify:     {Sample: took(1)},
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
