package scenario

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// sampleSize is the number of requests in the measurement of a step.
const sampleSize = 160

// quick returns settings for a cluster that responds immediately.
func quick(w *fakeCluster) Settings {
	s := DefaultSettings()
	s.Address, s.Dial = "proxy:80", w.dial
	s.Rate, s.Sample = 200, sampleSize
	s.SplitDelay, s.EndDelay = 60*time.Millisecond, 120*time.Millisecond
	s.Slack, s.Poll = 100*time.Millisecond, 20*time.Millisecond
	s.Burst, s.Capacity = 200*time.Millisecond, fixedCapacity(1000)
	s.Pause, s.Patience, s.EnvoyPatience = 3*time.Second, 10*time.Second, 1500*time.Millisecond
	s.Started = time.Now()
	return s
}

// fixedCapacity returns a measurement with a fixed result.
func fixedCapacity(rate float64) func(context.Context, load.Config, time.Duration) (float64, load.Totals, error) {
	return func(ctx context.Context, target load.Config, burst time.Duration) (float64, load.Totals, error) {
		_, totals, err := load.Capacity(ctx, target, burst)
		return rate, totals, err
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, faults{})
		outcome, err := Run(t.Context(), w, w, report.Style{}, quick(w))
		if err != nil {
			t.Fatalf("%v\n%s", err, w.text())
		}
		var steps []string
		for _, r := range outcome.Rows {
			if r.State != report.Passed || r.Done != sampleSize || r.Errors != 0 {
				t.Errorf("row %+v", r)
			}
			steps = append(steps, strings.Join([]string{
				r.Canary, r.Step, report.Percent(r.Desired), r.Color,
				r.Annotation, r.Acked, r.Envoy,
			}, " | "))
		}
		want := []string{
			"blue → yellow | 20 % | 20 % | yellow | 80/20 | 80/20 | 80/20",
			"blue → yellow | 50 % | 50 % | yellow | 50/50 | 50/50 | 50/50",
			"blue → yellow | 80 % | 80 % | yellow | 20/80 | 20/80 | 20/80",
			"blue → yellow | done | 100 % | yellow | – | – | 100",
			"yellow → purple | 20 % | 20 % | purple | 80/20 | 80/20 | 80/20",
			"yellow → purple | 50 % | 50 % | purple | 50/50 | 50/50 | 50/50",
			"yellow → purple | aborted | 100 % | yellow | – | – | 100",
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if len(outcome.Checks) != 7 || slices.ContainsFunc(outcome.Checks, func(c report.Check) bool { return !c.OK }) {
			t.Errorf("checks %+v", outcome.Checks)
		}
		if outcome.RunningCanary == 0 || outcome.Elapsed < outcome.RunningCanary {
			t.Errorf("%s to a running canary, %s in all", outcome.RunningCanary, outcome.Elapsed)
		}
		if diff := cmp.Diff(commands, w.commands); diff != "" {
			t.Errorf("commands (-want +got):\n%s", diff)
		}
		for _, line := range []string{
			`$ curl -s localhost:9901/config_dump | grep -E '"name": "[^"]*rollouts-demo'`,
			`{"name": "rollouts-demo/rollouts-demo/rollouts-demo-canary", "weight": 20}`,
		} {
			if !strings.Contains(w.text(), line) {
				t.Errorf("the transcript lacks %q", line)
			}
		}
		if strings.Contains(w.text(), "carries") {
			t.Errorf("a usual machine is talked about:\n%s", w.text())
		}
	})
}

// Each fault of the cluster fails the demo, with a message that identifies the fault.
func TestFaultsFailTheDemo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		faults      faults
		change      func(*Settings)
		wantErr     error
		wantMessage string
	}{
		{
			name: "the app doesn't come up", faults: faults{neverHealthy: true}, wantErr: await.ErrNotReached,
			wantMessage: "the Rollout to be Healthy", change: shortPatience,
		},
		{
			name: "a paused interceptor", faults: faults{frozen: true}, wantErr: await.ErrNotReached,
			wantMessage: "Envoy runs rollouts-demo-stable 100 %. The router has written the annotation",
		},
		{
			name: "no word of Envoy's ACK", faults: faults{silent: true}, wantErr: await.ErrNotReached,
			wantMessage: "status.dataPlane reports 0 of 1. Envoy runs them",
		},
		{
			name: "weights swapped on their way to Envoy", faults: faults{swapsWeights: true}, wantErr: await.ErrNotReached,
			wantMessage: "Envoy runs rollouts-demo-canary 80 %, rollouts-demo-stable 20 %",
		},
		{
			name: "traffic not split like Envoy's routes", faults: faults{swapsTraffic: true},
			wantErr: assert.ErrSplit, wantMessage: "desired 20 %",
		},
		{
			name: "a failed request", faults: faults{failsOnce: true}, wantErr: guide.ErrCheck,
			wantMessage: "1 × HTTP status 503",
		},
		{
			name: "an annotation that stays", faults: faults{keepsWeights: true}, wantErr: await.ErrNotReached,
			wantMessage: "the annotation –", change: shortPatience,
		},
		{
			name: "an old Pod that still responds", faults: faults{straggler: true}, wantErr: assert.ErrSplit,
			wantMessage: "step done",
		},
		{
			name: "connections that are closed", faults: faults{closes: true}, wantErr: guide.ErrCheck,
			wantMessage: "pinned HTTP/1.1 connection survived",
		},
		{
			name: "a listener that is updated", faults: faults{listenerMoves: true}, wantErr: guide.ErrCheck,
			wantMessage: "lds.update_success 1 → 2",
		},
		{
			name: "requests that nobody sent", faults: faults{countsOthers: true}, wantErr: guide.ErrCheck,
			wantMessage: "Envoy counted the same",
		},
		{
			name: "a step that is over too soon", faults: faults{skipsPauses: true},
			wantErr: await.ErrNotReached, wantMessage: "Envoy has gone on",
		},
		{
			name: "a client that can't keep up", faults: faults{hangs: true}, wantErr: ErrOverload,
			wantMessage: "(100 may be at once)",
			change:      func(s *Settings) { s.MaxInFlight = 100 },
		},
		{
			name: "a machine with a very low maximum rate", wantErr: ErrTooSlow,
			wantMessage: "its maximum request rate is about 7.0 requests/s",
			change:      func(s *Settings) { s.Capacity = fixedCapacity(7) },
		},
		{
			name: "a request that fails before the canary", wantErr: guide.ErrCheck,
			wantMessage: "the maximum request rate of this machine: no request failed: does not hold: 1 of 9; 1 × HTTP status " +
				"503",
			change: func(s *Settings) {
				s.Capacity = func(context.Context, load.Config, time.Duration) (float64, load.Totals, error) {
					return 1000, load.Totals{Ended: 9, Sent: 9, Failed: 1, Reasons: map[string]int{"HTTP status 503": 1}}, nil
				}
			},
		},
		{name: "kubectl fails", faults: faults{brokenCommands: true}, wantMessage: "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFakeCluster(t, tt.faults)
				settings := quick(w)
				if tt.change != nil {
					tt.change(&settings)
				}
				_, err := Run(t.Context(), w, w, report.Style{}, settings)
				if err == nil || (tt.wantErr != nil && !errors.Is(err, tt.wantErr)) ||
					!strings.Contains(err.Error(), tt.wantMessage) {
					t.Errorf("error = %v\nwant %v with %q\n%s", err, tt.wantErr, tt.wantMessage, w.text())
				}
			})
		})
	}
}

func shortPatience(s *Settings) { s.Patience = 700 * time.Millisecond }

func TestAnOddSampleIsMeasuredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, faults{oddAtFirst: true})
		outcome, err := Run(t.Context(), w, w, report.Style{}, quick(w))
		if err != nil {
			t.Fatalf("%v\n%s", err, w.text())
		}
		if got := outcome.Rows[0].Done; got != 2*sampleSize {
			t.Errorf("the first step was measured with %d requests, want a second sample of %d", got, 2*sampleSize)
		}
		if got := outcome.Rows[1].Done; got != sampleSize {
			t.Errorf("the second step was measured with %d requests, want %d", got, sampleSize)
		}
	})
}

func TestInterruptionEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, faults{})
		ctx, cancel := context.WithCancel(t.Context())
		screen := interrupting{fakeCluster: w, interrupt: cancel}
		if _, err := Run(ctx, w, screen, report.Style{}, quick(w)); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
	})
}

// interrupting cancels the context when the load runs.
type interrupting struct {
	*fakeCluster

	interrupt func()
}

func (i interrupting) Print(lines ...string) {
	i.fakeCluster.Print(lines...)
	if strings.Contains(strings.Join(lines, "\n"), "The load runs") {
		i.interrupt()
	}
}

func TestDiagnoseQueriesEveryComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, faults{brokenCommands: true})
		Diagnose(t.Context(), shell.Shell{Runner: w, Screen: w, Within: time.Minute})
		for _, part := range []string{
			"get rollout", "get events", "deploy/argo-rollouts",
			"component=interceptor", "app=kedify-proxy",
		} {
			if !strings.Contains(strings.Join(w.commands, "\n"), part) {
				t.Errorf("Diagnose runs no command with %q", part)
			}
		}
		if !strings.Contains(w.text(), "unexpected EOF") {
			t.Error("a command that fails is not reported")
		}
	})
}

func TestShortShares(t *testing.T) {
	tests := map[string]envoyadmin.Shares{
		"–":           {},
		"100":         {cluster(stable): 1},
		"80/20":       {cluster(stable): 0.8, cluster(canary): 0.2},
		"0/100":       {cluster(canary): 1},
		"other 100 %": {cluster("other"): 1},
	}
	for want, shares := range tests {
		if got := shortShares(shares); got != want {
			t.Errorf("%v in short: %q, want %q", shares, got, want)
		}
	}
}

// commands are those of a whole run.
var commands = []string{
	"kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:yellow",
	"kubectl -n rollouts-demo get rollout,httpso",
	weights,
	"kubectl argo rollouts get rollout rollouts-demo -n rollouts-demo",
	"kubectl argo rollouts -n rollouts-demo promote rollouts-demo",
	weights,
	"kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:purple",
	"kubectl argo rollouts -n rollouts-demo promote rollouts-demo",
	"kubectl argo rollouts -n rollouts-demo abort rollouts-demo",
	weights,
}

const weights = `kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`
