package canary

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

var update = flag.Bool("update", false, "write the golden outputs")

const (
	// commandsNamespace and commandsHost are those of the application: other tests may run on the cluster.
	commandsNamespace = "commands"
	commandsHost      = "commands.example.com"
	// examined is how long doctor pauses between two runs in the background.
	examined = time.Second
)

// demoStep is a step of the demo.
type demoStep struct {
	// name is that of the golden file; empty for none.
	name string
	// verb is the command of kubectl-argo-rollouts that leads to the step; none before the first canary.
	verb []string
	// phase is the phase of the Rollout, goal the value of `status --for`.
	phase, goal string
}

// demoSteps are the steps of the demo's canaries: the first one is promoted, the second one aborted. Afterwards a user
// retries it, and then returns to the stable version.
func demoSteps() []demoStep {
	image := func(color string) []string {
		return []string{"set", "image", testbed.App, testbed.App + "=argoproj/rollouts-demo:" + color}
	}
	promote := []string{"promote", testbed.App}
	return []demoStep{
		{"before", nil, "Healthy", "promoted"},
		{"at-20", image("yellow"), "Paused", "verified=20"},
		{"at-50", promote, "Paused", "verified=50"},
		{"at-80", promote, "Paused", "verified=80"},
		{"promoted", promote, "Healthy", "promoted"},
		{"", image("purple"), "Paused", "verified=20"},
		{"aborted", []string{"abort", testbed.App}, "Degraded", "verified=0"},
		{"retried", []string{"retry", "rollout", testbed.App}, "Paused", "verified=20"},
		{"rolled-back", image("yellow"), "Healthy", "promoted"},
	}
}

// TestCommands plays the canaries of the demo with its ScaledObject, and compares the outputs of status, list and doctor
// at each step with golden files. A user waits for each step by `status --for`. doctor runs all the time and finds
// nothing at any moment, and list --watch ends with the deletion of the Rollout.
func TestCommands(t *testing.T) {
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{"keda", "traefik"}})
	w := reader{Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: commandsNamespace}}
	w.deploy(t, repo)
	list := w.watchList(t)
	findings, end := w.watchDoctor(t)
	defer end()
	compared := 0
	for _, step := range demoSteps() {
		w.reach(t, step)
		if step.name != "" {
			compared++
			w.compare(t, fmt.Sprintf("%d-%s.txt", compared, step.name))
		}
	}
	end()
	for _, finding := range slices.Sorted(maps.Keys(findings)) {
		t.Errorf("during a sound canary doctor reports %s", finding)
	}
	w.Do(t, "delete", "rollout", testbed.App, "--wait=false")
	isRemoved := func() bool { return strings.Contains(list.String(), "Removed") }
	await.Described(t, "list --watch to print the deletion", isRemoved, list.String)
	t.Logf("list --watch:\n%s", list)
}

// reader reads the outputs of the kubectl plugin like a user.
type reader struct{ testbed.Kubectl }

// deploy applies the demo's objects, and waits until the agent has created the proxies and pointed the Ingress at them.
// All pauses of the Rollout wait for a promotion.
func (w *reader) deploy(t *testing.T, repo string) {
	t.Helper()
	example := testbed.Example(t, repo, commandsHost, "manifests.yaml", "scaledobject.yaml")
	text, err := os.ReadFile(example[0])
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("pause: {duration: 30s}"), []byte("pause: {}"))
	if err := os.WriteFile(example[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	w.CreateNamespace(t, commandsNamespace)
	w.Do(t, "apply", "-f", testbed.LimitRangeFile(repo))
	w.Do(t, "apply", "-f", example[0], "-f", example[1])
	w.Do(t, "wait", "ingress/"+testbed.App,
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
	w.Do(t, "rollout", "status", "deployment/kedify-proxy")
	w.Do(t, "wait", "scaledobject/"+testbed.App, "--for=condition=Ready")
	w.ExplainFailure(t, []string{"get", "rollout,httpso,scaledobject,hpa,pods", "-o", "yaml"}, []string{"get", "events"})
}

// reach goes to a step, and waits for it.
func (w *reader) reach(t *testing.T, step demoStep) {
	t.Helper()
	if step.verb != nil {
		w.Argo(t, step.verb...)
	}
	w.run(t, "status", testbed.App, "--for="+step.goal, testbed.WaitTimeout())
	w.Do(t, "wait", "rollout/"+testbed.App, "--for=jsonpath={.status.phase}="+step.phase)
}

// run runs the kubectl plugin, which must succeed, and returns its output.
func (w *reader) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.CommandTimeout())
	defer cancel()
	out, err := w.Run(ctx, w.commandLine(args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// commandLine returns the command line of the kubectl plugin in a UTF-8 locale.
func (*reader) commandLine(args ...string) []string {
	return append(append([]string{"env", "LC_ALL=C.UTF-8", plugin()}, args...), "--namespace", commandsNamespace)
}

// compare compares the outputs at a step with a golden file. Some parts of the status follow a little later, such as
// the endpoints of a Service.
func (w *reader) compare(t *testing.T, name string) {
	t.Helper()
	golden := testbed.Golden{Path: filepath.Join("testdata", "commands", name), IsUpdate: *update}
	got := w.outputs(t)
	for isSettled := !*update; !isSettled; {
		//testbounds:allow two readings with the same output
		<-time.After(examined)
		before := got
		got = w.outputs(t)
		isSettled = got == before
	}
	want, err := golden.Expect(got)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(want) {
		if strings.HasPrefix(line, "✗") || strings.HasPrefix(line, "!") {
			t.Errorf("%s: the golden output of a sound cluster has a finding: %s", name, line)
		}
	}
	await.Described(t, "the outputs of "+name, func() bool {
		if got != want {
			got = w.outputs(t)
		}
		return got == want
	}, func() string {
		return "\"make test-canary CANARY=TestCommands ARGS=-update\" writes the file (-want +got):\n" + cmp.Diff(want, got)
	})
}

// outputs returns what the commands print.
func (w *reader) outputs(t *testing.T) string {
	t.Helper()
	var record testbed.Transcript
	for _, args := range [][]string{{"status", testbed.App}, {"list"}, {"doctor"}} {
		ctx, cancel := context.WithTimeout(t.Context(), testbed.CommandTimeout())
		out, err := w.Run(ctx, w.commandLine(args...)...)
		cancel()
		if err != nil && out == "" {
			t.Fatal(err)
		}
		record.Add("kubectl http-canary "+strings.Join(args, " "), out)
	}
	return record.String()
}

// watchDoctor runs doctor again and again until end is called, and records the findings of two consecutive runs. One run
// reads the objects of a moving canary one after the other, so a finding of one run may never have been true. That a
// component is not ready is none: other suites on the cluster may have restarted it.
func (w *reader) watchDoctor(t *testing.T) (findings map[string]bool, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	findings = map[string]bool{}
	var background sync.WaitGroup
	background.Go(func() {
		for before := map[string]bool{}; ctx.Err() == nil; {
			out, err := w.Run(ctx, w.commandLine("doctor", "--output", "json")...)
			if ctx.Err() != nil {
				return
			}
			found := findingsOf(out, err)
			for key, text := range found {
				if before[key] {
					findings[text] = true
				}
			}
			clear(before)
			for key := range found {
				before[key] = true
			}
			select {
			case <-ctx.Done():
			case <-time.After(examined):
			}
		}
	})
	return findings, func() {
		cancel()
		background.Wait()
	}
}

// findingsOf returns the findings in an output of doctor by their codes. Without findings, an error is one.
func findingsOf(out string, err error) map[string]string {
	var report struct {
		Findings []json.RawMessage `json:"findings"`
	}
	found := map[string]string{}
	if json.Unmarshal([]byte(out), &report) != nil || err != nil && len(report.Findings) == 0 {
		found["error"] = fmt.Sprintf("%v: %s", err, out)
	}
	for _, finding := range report.Findings {
		if !strings.HasSuffix(code(finding), "NotReady") {
			found[code(finding)] = string(finding)
		}
	}
	return found
}

// listOutput is the output of list --watch so far.
type listOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// String returns the output.
func (l *listOutput) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Write implements io.Writer.
func (l *listOutput) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// watchList runs list --watch until the test ends.
func (w *reader) watchList(t *testing.T) *listOutput {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	output := new(listOutput)
	var background sync.WaitGroup
	background.Go(func() {
		// The end of the test interrupts the command.
		_ = w.Stream(ctx, func(out io.Reader) error {
			_, err := io.Copy(output, out)
			return err
		}, w.commandLine("list", "--watch")...)
	})
	t.Cleanup(func() {
		cancel()
		background.Wait()
	})
	return output
}
