package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// plugin is the kubectl plugin, which `make test-canary` builds beside the cluster's own programs.
func plugin() string {
	return filepath.Join(filepath.Dir(os.Getenv("LOCALCLUSTER_BIN")), "kubectl-http_canary")
}

// splitReport is what `split --output json` prints, as far as it matters here.
type splitReport struct {
	Services []struct {
		Asked int `json:"asked"`
	} `json:"services"`
	Objects []struct {
		Written []int  `json:"written"`
		Taken   string `json:"taken"`
		Why     string `json:"why"`
		Proxies struct {
			Ready int `json:"ready"`
			Acked int `json:"acked"`
		} `json:"proxies"`
	} `json:"objects"`
}

// weight is the canary's in percent; false where it is not known.
func (s splitReport) weight() (int, bool) {
	if len(s.Objects) != 1 || len(s.Objects[0].Written) != 2 {
		return 0, false
	}
	stable, canary := s.Objects[0].Written[0], s.Objects[0].Written[1]
	return 100 * canary / max(1, stable+canary), true
}

// runSteps goes through steps as Trial.Through does. At each pause Envoys have the weight, split says the same, and
// doctor has nothing to say.
func runSteps(ctx context.Context, t *testing.T, b *testbed.Testbed, trial *testbed.Trial, weights ...int) error {
	t.Helper()
	for i, weight := range weights {
		if err := trial.RunStep(ctx, i, weight); err != nil {
			return err
		}
		if now := b.Record.Now(); !now.HasWeight(weight, len(b.Proxies)) {
			return fmt.Errorf("weight %d is not in force: %s", weight, now)
		}
		checkWeight(ctx, t, b, weight)
		checkDoctor(ctx, t, b, fmt.Sprintf("at %d %%", weight))
	}
	return nil
}

// checkWeight checks that split says what the Envoys have.
func checkWeight(ctx context.Context, t *testing.T, b *testbed.Testbed, weight int) {
	t.Helper()
	out, err := b.Kubectl(ctx, plugin(), "split", testbed.App, "--namespace", testbed.Namespace, "--output", "json")
	var told splitReport
	if err == nil {
		err = json.Unmarshal([]byte(out), &told)
	}
	if err != nil {
		t.Errorf("split at %d %%: %v", weight, err)
		return
	}
	written, is := told.weight()
	if !is || written != weight || len(told.Services) != 2 || told.Services[1].Asked != weight ||
		told.Objects[0].Taken != "yes" || told.Objects[0].Proxies.Acked != len(b.Proxies) {
		t.Errorf("the Envoys have %d %%, and split says %s", weight, out)
	}
}

// checkDoctor checks that doctor has nothing to say, except for a while that a Pod is not ready: that of a Pod that
// stood still. On a cluster of several suites it may say that the agent is away: e2e/suites/autowire kills it there,
// and doctor is right.
func checkDoctor(ctx context.Context, t *testing.T, b *testbed.Testbed, when string) {
	t.Helper()
	var wrong []string
	err := await.Until(ctx, when+" doctor finds nothing", func() bool {
		findings, unready := runDoctor(ctx, t, b, when)
		wrong = findings
		return len(wrong) == 0 || !unready
	}, func() string { return "a Pod is not ready" })
	if err != nil {
		t.Error(err)
	}
	for _, finding := range wrong {
		t.Errorf("%s doctor says %s", when, finding)
	}
}

// runDoctor is what doctor says without reason to. Unready tells that all of it is that something is not ready.
func runDoctor(ctx context.Context, t *testing.T, b *testbed.Testbed, when string) (wrong []string, unready bool) {
	t.Helper()
	out, err := b.Kubectl(ctx, plugin(), "doctor", "--namespace", testbed.Namespace, "--output", "json")
	var said struct {
		Findings []json.RawMessage `json:"findings"`
	}
	unready = true
	if out != "" && json.Unmarshal([]byte(out), &said) == nil {
		for _, finding := range said.Findings {
			if testbed.IsShared() && isOfAgent(finding) {
				t.Logf("%s doctor says %s, which another suite has killed", when, finding)
				continue
			}
			wrong = append(wrong, string(finding))
			unready = unready && strings.HasSuffix(code(finding), "NotReady")
		}
	}
	if err != nil && len(said.Findings) == 0 {
		return []string{err.Error()}, false
	}
	return wrong, unready
}

// code is that of a finding.
func code(finding json.RawMessage) string {
	var is struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(finding, &is) != nil {
		return ""
	}
	return is.Code
}

// isOfAgent reports whether a finding is that the agent, or its webhook, is not ready.
func isOfAgent(finding json.RawMessage) bool {
	return code(finding) == "AgentNotReady" || code(finding) == "WebhookNotReady"
}

// followOutput are the weights that `split --watch` has told, one after the other.
type followOutput struct {
	mu      sync.Mutex
	weights []int
}

// follow runs `split --watch` until the returned function is called.
func follow(ctx context.Context, b *testbed.Testbed) (seen *followOutput, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	seen = new(followOutput)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// That it is ended is an error; one that ends by itself has told too little.
		_ = b.Cluster.Stream(ctx, seen.read, plugin(), "split", testbed.App, "--namespace", testbed.Namespace,
			"--watch", "--output", "json")
	}()
	return seen, func() {
		cancel()
		<-ended
	}
}

// read notes each weight that is another one than the last.
func (f *followOutput) read(out io.Reader) error {
	for decoder := json.NewDecoder(out); ; {
		var told splitReport
		if err := decoder.Decode(&told); err != nil {
			return nil //nolint:nilerr // it is ended by whoever follows
		}
		weight, is := told.weight()
		f.mu.Lock()
		if is && (len(f.weights) == 0 || f.weights[len(f.weights)-1] != weight) {
			f.weights = append(f.weights, weight)
		}
		f.mu.Unlock()
	}
}

// hasWeights reports whether it has told what was asked for, in its order and nothing else. One weight may be missing that
// passed while a watch was opened anew: the full one of a promotion is there for less than a second.
func (f *followOutput) hasWeights(asked []int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := 0
	for _, weight := range asked {
		if next < len(f.weights) && f.weights[next] == weight {
			next++
		}
	}
	return next == len(f.weights) && next >= len(asked)-1 && f.weights[next-1] == asked[len(asked)-1]
}

// String is all weights so far.
func (f *followOutput) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.weights)
}
