package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		shape       shape
		quiet, busy time.Duration // of a PATCH, with a bare push of 4 ms and an answer of 6 ms
		idle, churn float64
		want        string
	}{
		"within the limits": {shape{1, 1000}, 15 * time.Millisecond, 15 * time.Millisecond, 60, 60, ""},
		"too slow": {
			shape{1, 1000},
			16 * time.Millisecond, 15 * time.Millisecond, 60, 60,
			"p50, 1x1000, quiet is 1.60, at most 1.50 is allowed",
		},
		"too slow among changes": {
			shape{100, 10000},
			15 * time.Millisecond, 21 * time.Millisecond, 60, 60,
			"p99, 100x10000, busy is 2.10, at most 2.00 is allowed",
		},
		"too large": {
			shape{1, 1000},
			15 * time.Millisecond, 15 * time.Millisecond, 61, 60,
			"interceptor, MB, 1x1000, idle is 61.00, at most 60.00 is allowed",
		},
		"larger with more objects": {shape{1, 10000}, 15 * time.Millisecond, 15 * time.Millisecond, 150, 150, ""},
		"too large among changes": {
			shape{1, 10000},
			15 * time.Millisecond, 15 * time.Millisecond, 150, 151,
			"interceptor, MB, 1x10000, 60 changes/s is 151.00, at most 150.00 is allowed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken := func(patch time.Duration) cell {
				return cell{
					pushes: []time.Duration{4 * time.Millisecond}, answers: []time.Duration{6 * time.Millisecond},
					patches: []time.Duration{patch},
				}
			}
			results := report{Samples: 1, Results: []result{{
				Shape: test.shape, Quiet: taken(test.quiet), Busy: taken(test.busy),
				Memory: memory{Idle: test.idle, Busy: test.churn, ChangesPerSecond: 60},
			}}}
			results.summarise()
			results.table(io.Discard)
			switch err := benchresult.Verdict(results.Limits); {
			case (err != nil) != (test.want != ""):
				t.Errorf("verdict is %v", err)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("verdict %q lacks %q", err, test.want)
			}
		})
	}
}

func TestCostExcludesIdleUsage(t *testing.T) {
	t.Parallel()
	// Each reading costs 50 µs, which belong to no weight.
	before := reading{
		ends: usage{seconds: 1, Interceptor: 50, Bytes: 1000}, begins: usage{seconds: 1, Interceptor: 100, Bytes: 1000},
	}
	after := reading{
		ends: usage{seconds: 3, Interceptor: 1500, Bytes: 9000}, begins: usage{seconds: 3, Interceptor: 1550, Bytes: 9000},
	}
	got := costOf(before.until(after), usage{Interceptor: 200, Bytes: 1000}, 10)
	if got.Interceptor != 100 || got.Bytes != 600 {
		t.Errorf("a weight costs %v µs and %v bytes, want 100 and 600", got.Interceptor, got.Bytes)
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"1x2": 1, "1x100,100x10000": 2, "": 0, "100": 0, "0x10": 0, "3x4": 0, "1x10,": 0, "1x10y": 0, "1x1": 0,
	} {
		shapes, err := shapesOf(text)
		if len(shapes) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %d shapes", text, shapes, err, want)
		}
	}
}

// TestSoak has an interceptor whose memory grows, and one that stays as it is after the first third.
func TestSoak(t *testing.T) {
	t.Parallel()
	for growth, want := range map[float64]string{
		0: "", 1: "soak, 1x100: resident memory, MB, last third / second third is 1.14, at most 1.10 is allowed",
	} {
		results := report{Results: []result{{Shape: shape{1, 100}}}}
		for minute := range 60 {
			results.Results[0].Soak.Readings = append(results.Results[0].Soak.Readings, soakReading{
				Minutes: float64(minute), MemoryMB: 110 + growth*float64(minute), HeapMB: 50, Goroutines: 200, Descriptors: 30, P50: 9,
				P99: 20 + float64(max(0, 20-minute)),
			})
		}
		results.summarise()
		results.table(io.Discard)
		err := benchresult.Verdict(results.Limits)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("growth %v: the verdict is %v, want %q", growth, err, want)
		}
		if len(results.Lines.Series) != 6 || results.Lines.Axis != "59 minutes" {
			t.Errorf("the diagram is %+v", results.Lines)
		}
	}
}

// TestAccuracy has the splits of constant weights, and requests after a status.
func TestAccuracy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		canary         int // of 100,000 at 1 %, of which 10 is 0.3 σ
		checked, stray int64
		want           string
	}{
		"within 3 σ":        {1090, 1000, 0, ""},
		"too few":           {900, 1000, 0, "σ, 1.0 % of 100000 requests is 3.18, at most 3.00 is allowed"},
		"too many":          {1100, 1000, 0, "σ, 1.0 % of 100000 requests is 3.18, at most 3.00 is allowed"},
		"a stray request":   {1000, 1000, 1, "requests to a side without weight, after the status of 100 changes is 1.00, at most 0.00 is allowed"},
		"nothing was asked": {1000, 0, 0, "requests after the status of a change is 0.00, at least 1000.00 is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := report{Results: []result{{Shape: shape{1, 100}, Accuracy: &accuracy{
				Shares:  []share{{Permille: 10, Requests: 100_000, Canary: test.canary, Static: 1}},
				Changes: changes{Changes: 100, Requests: 5000, Checked: test.checked, Stray: test.stray},
			}}}}
			results.summarise()
			results.table(io.Discard)
			err := benchresult.Verdict(results.Limits)
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("the verdict is %v, want %q", err, test.want)
			}
		})
	}
}

// TestEnvoyGateway has a weight by Envoy Gateway next to one by the interceptor.
func TestEnvoyGateway(t *testing.T) {
	t.Parallel()
	times := func(ms float64) quantiles { return quantiles{P50: ms * 1000, P90: ms * 1000, P99: ms * 1000} }
	for name, test := range map[string]struct {
		routes int
		theirs float64 // milliseconds
		want   string
	}{
		"fast enough": {1000, 200, ""},
		"few routes":  {100, 40, ""},
		"not fast enough": {
			1000, 199, "Envoy Gateway / interceptor, PATCH to first response, p50, 1000 routes is 19.90, at least 20.00 is allowed",
		},
		"few, not fast":     {100, 39, "100 routes is 3.90, at least 4.00 is allowed"},
		"nothing was there": {1000, 0, "1000 routes is 0.00, at least 20.00 is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := report{Results: []result{{Shape: shape{1, test.routes}, Comparison: &comparison{
				Interceptor:  systemResult{Since: times(3), Patch: times(10)},
				EnvoyGateway: systemResult{Patch: times(test.theirs)},
			}}}}
			results.summarise()
			results.table(io.Discard)
			err := benchresult.Verdict(results.Limits)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the verdict is %v, want %q", err, test.want)
			}
		})
	}
}
