package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// plugin returns the path of the kubectl plugin, which `make test-canary` builds next to the cluster's programs.
func plugin() string {
	return testbed.CanaryPlugin()
}

// splitReport is the relevant part of the output of `status --output json`.
type splitReport struct {
	Services []struct {
		Desired int `json:"desired"`
	} `json:"services"`
	Objects []struct {
		Written []int  `json:"written"`
		Applied string `json:"applied"`
		Reason  string `json:"reason"`
		Proxies struct {
			Ready int `json:"ready"`
			Acked int `json:"acked"`
		} `json:"proxies"`
	} `json:"objects"`
}

// weight returns the canary's weight in percent; false if it is unknown.
func (s splitReport) weight() (int, bool) {
	if len(s.Objects) != 1 || len(s.Objects[0].Written) != 2 {
		return 0, false
	}
	stable, canary := s.Objects[0].Written[0], s.Objects[0].Written[1]
	return 100 * canary / max(1, stable+canary), true
}

// runSteps runs steps like Trial.RunSteps, with the checks of runStep.
func runSteps(ctx context.Context, t *testing.T, b *testbed.Testbed, trial *testbed.Trial, weights ...int) error {
	t.Helper()
	for i, weight := range weights {
		if err := runStep(ctx, t, b, trial, i, weight); err != nil {
			return err
		}
	}
	return nil
}

// runStep is Trial.RunStep. At the pause the Envoys have the weight, split reports the same, and doctor reports nothing.
func runStep(ctx context.Context, t *testing.T, b *testbed.Testbed, trial *testbed.Trial, i, weight int) error {
	t.Helper()
	if err := trial.RunStep(ctx, i, weight); err != nil {
		return err
	}
	if now := b.Record.Now(); !now.HasWeight(weight, len(b.Proxies)) {
		return fmt.Errorf("weight %d is not active: %s", weight, now)
	}
	checkWeight(ctx, t, b, weight)
	checkDoctor(ctx, t, b, fmt.Sprintf("at %d %%", weight))
	return nil
}

// checkWeight checks that status reports the weight of the Envoys.
func checkWeight(ctx context.Context, t *testing.T, b *testbed.Testbed, weight int) {
	t.Helper()
	out, err := b.Kubectl(ctx, plugin(), "status", testbed.App, "--namespace", testbed.Namespace, "--output", "json")
	var report splitReport
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	if err != nil {
		t.Errorf("status at %d %%: %v", weight, err)
		return
	}
	written, ok := report.weight()
	if !ok || written != weight || len(report.Services) != 2 || report.Services[1].Desired != weight ||
		report.Objects[0].Applied != "yes" || report.Objects[0].Proxies.Acked != len(b.Proxies) {
		t.Errorf("the Envoys have %d %%, status reports %s", weight, out)
	}
}

// checkDoctor checks that doctor reports nothing. It tolerates for a while that a Pod is not ready, because a paused
// Pod needs some time. On a cluster of several suites doctor may correctly report that the agent is unavailable,
// because e2e/suites/autowire kills it there.
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
		t.Errorf("%s doctor reports %s", when, finding)
	}
}

// runDoctor returns the findings of doctor that are wrong. unready is true if all of them are about readiness.
func runDoctor(ctx context.Context, t *testing.T, b *testbed.Testbed, when string) (wrong []string, unready bool) {
	t.Helper()
	out, err := b.Kubectl(ctx, plugin(), "doctor", "--namespace", testbed.Namespace, "--output", "json")
	var output struct {
		Findings []json.RawMessage `json:"findings"`
	}
	unready = true
	if out != "" && json.Unmarshal([]byte(out), &output) == nil {
		for _, finding := range output.Findings {
			if testbed.IsShared() && isOfAgent(finding) {
				t.Logf("%s doctor reports %s, which another suite has killed", when, finding)
				continue
			}
			wrong = append(wrong, string(finding))
			unready = unready && strings.HasSuffix(code(finding), "NotReady")
		}
	}
	if err != nil && len(output.Findings) == 0 {
		return []string{err.Error()}, false
	}
	return wrong, unready
}

// code returns the code of a finding.
func code(finding json.RawMessage) string {
	var parsed struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(finding, &parsed) != nil {
		return ""
	}
	return parsed.Code
}

// isOfAgent reports whether a finding is that the agent or its webhook is not ready.
func isOfAgent(finding json.RawMessage) bool {
	return code(finding) == "AgentNotReady" || code(finding) == "WebhookNotReady"
}

// followOutput contains the weights that `status --watch` has printed, in order.
type followOutput struct {
	mu      sync.Mutex
	weights []int
}

// follow runs `status --watch` until the returned function is called.
func follow(ctx context.Context, b *testbed.Testbed) (seen *followOutput, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	seen = new(followOutput)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Cancellation is an error. If the command ends earlier, weights are missing.
		_ = b.Cluster.Stream(ctx, seen.read, plugin(), "status", testbed.App, "--namespace", testbed.Namespace,
			"--watch", "--output", "json")
	}()
	return seen, func() {
		cancel()
		<-ended
	}
}

// read records each weight that differs from the previous one.
func (f *followOutput) read(out io.Reader) error {
	for decoder := json.NewDecoder(out); ; {
		var report splitReport
		if err := decoder.Decode(&report); err != nil {
			return nil //nolint:nilerr // the caller of follow ends the command
		}
		weight, ok := report.weight()
		f.mu.Lock()
		if ok && (len(f.weights) == 0 || f.weights[len(f.weights)-1] != weight) {
			f.weights = append(f.weights, weight)
		}
		f.mu.Unlock()
	}
}

// hasWeights reports whether the output contains exactly the requested weights in order. One weight may be missing if
// it passed while a watch was reopened: the full weight of a promotion lasts for less than a second.
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

// String returns all weights so far.
func (f *followOutput) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.weights)
}
