package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
)

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		patch        time.Duration // beside a bare push of 10 ms
		start, churn float64
		want         string
	}{
		"within the limits":      {30 * time.Millisecond, 80, 80, ""},
		"too slow":               {31 * time.Millisecond, 80, 80, "PATCH / bare push, p99, 1000 objects is 3.10, at most 3.00 is allowed"},
		"too large at its start": {30 * time.Millisecond, 80.5, 80, "after start, MB, 1000 objects is 80.50, at most 80.00 is allowed"},
		"too large later":        {30 * time.Millisecond, 80, 81, "under 60 changes/s, MB is 81.00, at most 80.00 is allowed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow, quick := []time.Duration{time.Second}, []time.Duration{10 * time.Millisecond}
			results := report{
				Repeats: 5, Samples: 1,
				Lines: []line{ // Only the last number of objects has limits.
					{Objects: 1, pushes: quick, answers: quick, patches: slow},
					{Objects: 1000, pushes: quick, answers: quick, patches: []time.Duration{test.patch}},
				},
				Memory: memory{Objects: 1000, Start: test.start, Churn: test.churn, Seconds: 60, Changes: 60},
			}
			results.summarise()
			results.table(io.Discard)
			switch err := figures.Verdict(results.Limits); {
			case (err != nil) != (test.want != ""):
				t.Errorf("verdict is %v", err)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("verdict %q lacks %q", err, test.want)
			}
		})
	}
}

func TestSizesAscend(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1": 1, "1,100,1000": 3, "": 0, "0": 0, "10,1": 0, "1,x": 0, "5,5": 0} {
		sizes, err := sizesOf(text)
		if len(sizes) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %d numbers", text, sizes, err, want)
		}
	}
}
