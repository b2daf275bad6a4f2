package routerbench

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
)

// of is a case with five objects per Rollout.
func of() Case {
	return Case{Name: "5 routes", Workers: 1, Rollouts: 4, Calls: 4, Objects: 5, MinResync: 0.5, Kill: true}
}

// sampleOf is a sample of calls of the given durations in milliseconds, which are whole seconds.
func sampleOf(whole float64, millis ...int) sample {
	measured := stopwatch.Sample{Whole: time.Duration(whole * float64(time.Second))}
	for _, ms := range millis {
		measured.Took = append(measured.Took, time.Duration(ms)*time.Millisecond)
	}
	return sample{Sample: measured}
}

func TestVerdictNamesMissedLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(samples map[string]sample)
		want   string
	}{
		"at the limits": {func(s map[string]sample) { s[setWeight] = sampleOf(1/0.85, 115, 115, 115, 300) }, ""},
		"p50": {
			func(s map[string]sample) { s[setWeight] = sampleOf(1, 116, 116, 116, 200) },
			"5 routes: SetWeight / bare write, p50 is 1.16, at most 1.15 is allowed",
		},
		"p99": {
			func(s map[string]sample) { s[setWeight] = sampleOf(1, 100, 100, 100, 302) },
			"5 routes: SetWeight / bare write, p99 is 1.51, at most 1.50 is allowed",
		},
		"rate": {
			func(s map[string]sample) { s[setWeight] = sampleOf(1/0.84, 100, 100, 100, 200) },
			"5 routes: SetWeight / bare write, rate is 0.84, at least 0.85 is allowed",
		},
		"a write too many": {more(setWeight, 0, 21), "5 routes: writes of a SetWeight is 5.25, at most 5.00 is allowed"},
		"a read":           {more(setWeight, 1, 20), "5 routes: reads of a SetWeight is 0.25, at most 0.00 is allowed"},
		"an idle write":    {more(resync, 0, 1), "5 routes: writes of an idle resync is 0.25, at most 0.00 is allowed"},
		"an idle read":     {more(resync, 1, 0), "5 routes: reads of an idle resync is 0.25, at most 0.00 is allowed"},
		"idle resyncs": {
			func(s map[string]sample) { s[resync] = sampleOf(2.05, 1, 1, 1, 1) },
			"5 routes: idle resync / no-op plugin, rate is 0.49, at least 0.50 is allowed",
		},
		"a kill": {
			func(s map[string]sample) { s[killed] = sampleOf(0.603, 603) },
			"5 routes: kill -9 until recovery / no-op plugin and bare write is 2.01, at most 2.00 is allowed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples := map[string]sample{
				setWeight: sampleOf(1, 100, 100, 100, 200), bareWrite: sampleOf(1, 100, 100, 100, 200),
				resync: sampleOf(2, 1, 1, 1, 1), noResync: sampleOf(1, 1, 1, 1, 1), killed: sampleOf(0.6, 600),
				noKilled: sampleOf(0.1, 100),
			}
			test.change(samples)
			results := report{Repeats: 1}
			results.add(of(), samples)
			results.summarise([]Case{of()})
			results.table(io.Discard)
			got := ""
			if err := benchresult.Verdict(results.Limits); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the verdict is %q, want %q", got, test.want)
			}
		})
	}
}

// more sets the requests of a kind of call.
func more(kind string, reads, writes int) func(map[string]sample) {
	return func(samples map[string]sample) {
		changed := samples[kind]
		changed.reads, changed.writes = reads, writes
		samples[kind] = changed
	}
}

func TestARoundTakesTheNextRollouts(t *testing.T) {
	t.Parallel()
	m := &measurement{Benchmark: Benchmark{Subject: named{}}}
	for repeat, want := range []string{"0 1 2", "3 4 0", "1 2 3"} {
		var names []string
		for _, rollout := range m.begin(Case{Rollouts: 5, Calls: 3}, repeat).rollouts {
			names = append(names, rollout.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("round %d has the Rollouts %s, want %s", repeat, got, want)
		}
	}
}

// named returns Rollouts by their numbers.
type named struct{ Subject }

func (named) Rollout(_ Case, n int) *v1alpha1.Rollout {
	return NewRollout(strconv.Itoa(n), "test/router", nil)
}
