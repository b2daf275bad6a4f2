package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

// fakeCluster simulates the cluster. Its replicas follow the rate: whenever the demo prints that a rate was reached,
// they become those of the next rate.
type fakeCluster struct {
	still   bool // replicas never reach the second rate
	drops   bool // replicas disappear again as soon as they were correct
	oneSide bool // the canary does not follow
	fails   bool // a request gets a 503
	asleep  bool // nothing wakes the app

	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	commands []string
	phase    int
	zero     bool // KEDA may take the last replica away
	woken    bool
	looks    int
	lines    []string
}

// newFakeCluster gives the cluster an in-memory proxy, for a test in a synctest bubble.
func newFakeCluster(t *testing.T, w *fakeCluster) *fakeCluster {
	t.Helper()
	w.dial = memhttp.Serve(t, memhttp.Server(w.serve))
	return w
}

func (w *fakeCluster) serve(out http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	fails := w.fails || w.zero && w.asleep
	w.fails = false
	w.woken = w.zero && !w.asleep
	w.mu.Unlock()
	if fails {
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(out, `"blue"`)
}

// Run implements kube.Runner.
func (w *fakeCluster) Run(_ context.Context, args ...string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := strings.Join(args, " ")
	w.commands = append(w.commands, line)
	w.zero = w.zero || strings.Contains(line, "minReplicaCount")
	return "", nil
}

// Stream implements kube.Runner: the watch of the Rollout.
func (w *fakeCluster) Stream(ctx context.Context, read func(io.Reader) error, _ ...string) error {
	in, out := io.Pipe()
	go func() {
		defer func() { _ = out.Close() }()
		for ctx.Err() == nil {
			if _, err := io.WriteString(out, w.rollout()); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	defer func() { _ = in.Close() }()
	return read(in)
}

// rollout returns the current Rollout.
func (w *fakeCluster) rollout() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	plan := new(Demo).plan()
	p := plan[min(w.phase, len(plan)-1)]
	replicas := expectedReplicas(p.rate)
	switch {
	case w.woken:
		replicas = 1
	case w.zero:
		replicas = 0
	}
	w.looks++
	if w.still && w.phase > 0 || w.drops && w.looks > 60 {
		replicas = most + 2
	}
	r := kube.Rollout{Metadata: kube.Metadata{Name: guide.App, Generation: 1}, Spec: kube.RolloutSpec{Replicas: replicas}}
	r.Status.ObservedGeneration, r.Status.Phase = strconv.Itoa(1), "Healthy"
	r.Status.StableRS, r.Status.CurrentPodHash = "old", "old"
	r.Status.Replicas, r.Status.UpdatedReplicas = replicas, replicas
	r.Status.ReadyReplicas = replicas
	if p.paused {
		r.Status.Phase, r.Status.CurrentPodHash, r.Status.UpdatedReplicas = "Paused", "new", canaryPods(replicas)
		if w.oneSide {
			r.Status.UpdatedReplicas = 1
		}
		r.Status.Replicas += r.Status.UpdatedReplicas
		r.Status.PauseConditions = append(r.Status.PauseConditions, struct {
			Reason string `json:"reason"`
		}{"CanaryPauseStep"})
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text) + "\n"
}

// Print implements shell.Screen.
func (w *fakeCluster) Print(lines ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, lines...)
	for _, line := range lines {
		if strings.Contains(line, "replicas expected") {
			w.phase++
			w.looks = 0
		}
	}
}

// Frame implements shell.Screen.
func (*fakeCluster) Frame([]string) {}

// Columns implements shell.Screen.
func (*fakeCluster) Columns() int { return 100 }

// run runs the half in this cluster.
func (w *fakeCluster) run(ctx context.Context) (Outcome, error) {
	s := DefaultSettings()
	s.Address, s.Dial = "proxy:80", w.dial
	s.ScaleTimeout, s.StablePeriod, s.WakeTimeout, s.Started = 400*time.Millisecond, 100*time.Millisecond, time.Second, time.Now()
	s.Window = time.Millisecond
	if w.drops {
		s.ScaleTimeout, s.StablePeriod = time.Minute, time.Minute // the canceled run ends earlier
	}
	return New(shell.Shell{Runner: w, Screen: w, Within: time.Minute}, s).Run(ctx)
}

func TestReplicasFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeCluster(t, new(fakeCluster))
		outcome, err := w.run(t.Context())
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.lines, "\n"))
		}
		var got []string
		for _, r := range outcome.Rows {
			got = append(got, fmt.Sprintf("%s: %d expected, %d desired, %d stable, %d canary, right %v", r.Step, r.Expected,
				r.Desired, r.Stable, r.Canary, r.State == report.Passed))
		}
		want := []string{
			"8 requests/s: 2 expected, 2 desired, 2 stable, 0 canary, right true",
			"25 requests/s: 5 expected, 5 desired, 5 stable, 0 canary, right true",
			"25 requests/s, canary at 20 %: 5 expected, 5 desired, 5 stable, 1 canary, right true",
			"45 requests/s, canary at 20 %: 9 expected, 9 desired, 9 stable, 2 canary, right true",
			"8 requests/s, aborted: 2 expected, 2 desired, 2 stable, 0 canary, right true",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		for _, c := range outcome.Checks {
			if !c.OK {
				t.Errorf("check %+v", c)
			}
		}
		if diff := cmp.Diff(commands, w.commands); diff != "" {
			t.Errorf("commands (-want +got):\n%s", diff)
		}
	})
}

// Each fault of the cluster fails the half, with a message that identifies the fault.
func TestFaultsFailTheHalf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		cluster     *fakeCluster
		wantErr     error
		wantMessage string
	}{
		{
			"replicas that do not follow", &fakeCluster{still: true}, await.ErrNotReached,
			"25 requests/s: the replicas for 25 requests/s",
		},
		{"replicas that go again", &fakeCluster{drops: true}, guide.ErrCheck, "12 replicas, after the number was correct"},
		{"a canary that does not follow", &fakeCluster{oneSide: true}, await.ErrNotReached, "45 requests/s, canary at 20 %"},
		{"a failed request", &fakeCluster{fails: true}, guide.ErrCheck, "1 × HTTP status 503"},
		{
			"an app that nothing wakes", &fakeCluster{asleep: true}, guide.ErrCheck,
			"one request woke the app at zero: does not hold: HTTP status 503",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFakeCluster(t, tt.cluster)
				_, err := w.run(t.Context())
				if !errors.Is(err, tt.wantErr) || !strings.Contains(err.Error(), tt.wantMessage) {
					t.Errorf("error = %v\nwant %v with %q\n%s", err, tt.wantErr, tt.wantMessage, strings.Join(w.lines, "\n"))
				}
			})
		})
	}
}

// commands are those of a whole run.
var commands = []string{
	`kubectl -n rollouts-demo patch scaledobject rollouts-demo --type=merge -p {"spec":{"advanced":{"horizontalPodAutoscalerConfig":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}}}`,
	"kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:yellow",
	"kubectl argo rollouts -n rollouts-demo abort rollouts-demo",
	"kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:blue",
	`kubectl -n rollouts-demo patch scaledobject rollouts-demo --type=json -p [{"op":"replace","path":"/spec/minReplicaCount","value":0},{"op":"add","path":"/spec/cooldownPeriod","value":5},{"op":"add","path":"/spec/triggers/0/metadata/window","value":"10s"}]`,
}
