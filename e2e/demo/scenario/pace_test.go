package scenario

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// Every wait is longer if the cluster took longer to start than on a normal machine. No wait is shorter if it was
// quick.
func TestScaled(t *testing.T) {
	usual := DefaultSettings()
	for start, factor := range map[float64]float64{
		-1: 1, 0: 1, 13: 1, 30: 1, 45: 1.5,
		202: 202.0 / 30, 1000: 20, 90000: 20,
	} {
		scaled := usual.Scaled(start)
		before, after := reflect.ValueOf(usual.Waits), reflect.ValueOf(scaled.Waits)
		for i := range before.NumField() {
			want := time.Duration(float64(before.Field(i).Int()) * factor)
			if got := time.Duration(after.Field(i).Int()); got != want {
				t.Errorf("%v s to start: %s is %s, want %s", start, before.Type().Field(i).Name, got, want)
			}
		}
		if scaled.Rate != usual.Rate || scaled.Sample != usual.Sample || scaled.Pause != usual.Pause {
			t.Errorf("%v s to start: the load or the guide's pause is another: %+v", start, scaled)
		}
	}
}

// A machine gets at most a third of its capacity, with suitable pauses.
func TestPaced(t *testing.T) {
	tests := []struct {
		name                string
		requested, capacity float64
		rate                float64
		inFlight            int
		pause               time.Duration
		fails               error
	}{
		{name: "a usual machine", requested: 250, capacity: 2500, rate: 250, inFlight: 1000, pause: 30 * time.Second},
		{name: "just enough", requested: 250, capacity: 750, rate: 250, inFlight: 1000, pause: 30 * time.Second},
		{
			name: "the least that fits into the guide's pause", requested: 220, capacity: 2500, rate: 220,
			inFlight: 880, pause: 30 * time.Second,
		},
		{name: "a slow machine", requested: 250, capacity: 48.9, rate: 16, inFlight: 64, pause: 380 * time.Second},
		{
			name: "more requests than the maximum", requested: 2000, capacity: 1801, rate: 600,
			inFlight: 1000, pause: 30 * time.Second,
		},
		{name: "a low rate", requested: 5, capacity: 2500, rate: 5, inFlight: 20, pause: 1210 * time.Second},
		{name: "the slowest", requested: 250, capacity: 15, rate: 5, inFlight: 20, pause: 1210 * time.Second},
		{
			name: "too slow", requested: 250, capacity: 14.9, rate: 250, inFlight: 1000, pause: 30 * time.Second,
			fails: ErrTooSlow,
		},
	}
	for _, tt := range tests {
		s := DefaultSettings()
		//testbounds:allow a value of a pure function
		s.Rate, s.Timeout, s.MaxInFlight = tt.requested, 5*time.Second, 1000
		got, err := s.paced(tt.capacity)
		if !errors.Is(err, tt.fails) || got.Rate != tt.rate || got.MaxInFlight != tt.inFlight || got.Pause != tt.pause {
			t.Errorf("%s: %v requests/s, %d in flight, pauses of %s, error %v; want %+v", tt.name, got.Rate,
				got.MaxInFlight, got.Pause, err, tt)
		}
	}
}

// A slow machine runs the same canaries with fewer requests per second, and the output explains that.
func TestDemoOnASlowMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, faults{})
		settings := quick(w)
		settings.Capacity, settings.Sample, settings.Pause = fixedCapacity(300), 60, time.Second
		outcome, err := Run(t.Context(), w, w, report.Style{}, settings)
		if err != nil {
			t.Fatalf("%v\n%s", err, w.text())
		}
		for _, line := range []string{
			"The maximum request rate of this machine is about 300 requests/s. The load is 100 requests/s instead of 200, so " +
				"each step takes longer: the verdict needs 60 requests, at any rate.",
			"A sample and a fresh one of twice the size take up to 1.9 s at 100 requests/s: the guide's timed pauses of 1.0 s " +
				"are too short for that.",
			"The load runs: 100 requests/s",
		} {
			if !strings.Contains(w.text(), line) {
				t.Errorf("the transcript lacks %q:\n%s", line, w.text())
			}
		}
		const patch = `kubectl -n rollouts-demo patch rollout rollouts-demo --type=json -p [` +
			`{"op":"replace","path":"/spec/strategy/canary/steps/3/pause/duration","value":"10s"},` +
			`{"op":"replace","path":"/spec/strategy/canary/steps/5/pause/duration","value":"10s"}]`
		patched := slices.Index(w.commands, patch)
		started := slices.IndexFunc(w.commands, func(c string) bool { return strings.Contains(c, "set image") })
		if patched < 0 || patched > started {
			t.Errorf("the pauses are not changed before the first canary: %q", w.commands)
		}
		for _, row := range outcome.Rows {
			if row.Done != 60 {
				t.Errorf("step %s was measured with %d requests, want 60", row.Step, row.Done)
			}
		}
	})
}

// The patch changes exactly the guide's timed pauses, to the given duration.
func TestTimedPausesMatchGuide(t *testing.T) {
	manifest, err := os.ReadFile("../../../examples/argo-rollouts-canary/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, steps, ok := strings.Cut(string(manifest), "      steps:\n")
	if !ok {
		t.Fatal("the Rollout has no steps")
	}
	var timed []int
	for i, line := range strings.Split(steps, "\n") {
		if line == "        - pause: {duration: 30s}" {
			timed = append(timed, i)
		}
	}
	if diff := cmp.Diff(timedPauses(), timed); diff != "" || DefaultSettings().Pause != 30*time.Second {
		t.Errorf("timed pauses (-want +got):\n%s", diff)
	}
}

// The error of an overload contains the numbers and a fix.
func TestOverloadContainsNumbersAndAFix(t *testing.T) {
	for rate, want := range map[float64]string{
		250: "12 requests are in flight (1000 may be at once) and one began 0.3 s late (5.0 s is too late); this " +
			"machine or " +
			"the proxy is too slow for 250 requests/s: try --rate 125,",
		7: "try --rate 5,",
		5: "use one with more or faster cores",
	} {
		d := &demo{Settings: DefaultSettings()}
		//testbounds:allow a value of a pure function
		d.Rate, d.Timeout, d.MaxInFlight = rate, 5*time.Second, 1000
		err := d.overload(load.Totals{Overloaded: true, InFlight: 12, Lag: 300 * time.Millisecond})
		if !errors.Is(err, ErrOverload) || !strings.Contains(err.Error(), want) {
			t.Errorf("at %v requests/s: %v, want %q", rate, err, want)
		}
		if err := d.overload(load.Totals{Lag: time.Second}); err != nil {
			t.Errorf("no overload: %v", err)
		}
	}
}

// Requests that were not sent have failed, too: there are never more failures than requests.
func TestFailuresAreCountedOfAllRequests(t *testing.T) {
	checks := clientChecks(load.Totals{Ended: 13000, Sent: 10245, Failed: 12678, Reasons: map[string]int{"x": 12678}}, nil)
	if want := "12 678 of 13 000; 12 678 × x"; checks[0].OK || checks[0].Detail != want {
		t.Errorf("check %+v, want %q", checks[0], want)
	}
}
