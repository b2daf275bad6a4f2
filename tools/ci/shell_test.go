package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// repository makes a repository with a Makefile.
func repository(t *testing.T, makefile string) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "Makefile"), makefile)
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = root
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRunTier runs stages by make: one that fails once, whose failed tests run again by themselves, one that breaks an
// invariant, and one that fails twice.
func TestRunTier(t *testing.T) {
	root := repository(t, `
cluster-down:
	@echo down
good:
	@echo fine
tests:
	@printf -- '--- FAIL: TestA (0.1s)\n--- FAIL: TestB (0.1s)\nFAIL\nFAIL\tgithub.com/kedify/argo-rollouts-plugin/test/xds\t1s\n'; false
test-one:
	@echo "again: $(PKG) $(RUN)"
breaks:
	@test -f broken || { touch broken; echo 'x_test.go:1: invariant broken: failed requests: 1 of 9'; false; }
bad:
	@false
`)
	o := options{tier: "landing", cacheFolder: t.TempDir(), stages: []Stage{
		{Name: "good", Make: []string{"good"}, Inputs: []string{"Makefile"}},
		{Name: "tests", Make: []string{"tests"}, GoTests: true},
		{Name: "breaks", Make: []string{"breaks"}},
	}}
	var out strings.Builder
	if err := runTier(t.Context(), o, root, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	sum := summaryOf(t, out.String())
	want := []flaky{
		{Stage: "tests", Tests: []string{
			"github.com/kedify/argo-rollouts-plugin/test/xds TestA", "github.com/kedify/argo-rollouts-plugin/test/xds TestB",
		}},
		{Stage: "breaks"},
	}
	for i := range sum.Flaky {
		sum.Flaky[i].Log = ""
	}
	if diff := cmp.Diff(want, sum.Flaky); diff != "" || !sum.Passed {
		t.Errorf("passed: %v; flaky (-want +got):\n%s", sum.Passed, diff)
	}
	if diff := cmp.Diff([]broken{{"breaks", "failed requests: 1 of 9"}}, sum.Invariant); diff != "" {
		t.Errorf("invariant (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		"good | fine\n", "tests | again: ./test/xds ^(TestA|TestB)$\n", "stages: 3 passed, 0 failed, 0 skipped\n",
		"!!! INVARIANT BROKEN in stage breaks: failed requests: 1 of 9\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the output lacks %q:\n%s", line, &out)
		}
	}

	// The next run has a stage that fails twice, and one that is cached.
	o.stages = []Stage{
		o.stages[0], {Name: "bad", Make: []string{"bad"}}, {Name: "later", Make: []string{"good"}, Needs: []string{"bad"}},
	}
	out.Reset()
	if err := runTier(t.Context(), o, root, &out); err == nil {
		t.Errorf("a failed stage is no error:\n%s", &out)
	}
	sum = summaryOf(t, out.String())
	if got, want := [][]string{
		sum.Cached, sum.Failed, sum.Skipped,
	}, [][]string{{"good"}, {"bad"}, {"later"}}; sum.Passed || cmp.Diff(want, got) != "" {
		t.Errorf("passed: %v; cached, failed, skipped: %v, want %v", sum.Passed, got, want)
	}
}

// summaryOf reads the last line of a run's output.
func summaryOf(t *testing.T, out string) summary {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var sum summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatalf("the last line is no summary: %v\n%s", err, out)
	}
	return sum
}

// TestAnInterruptionEndsTheStagesProcesses has a stage start a process in the background that ignores SIGHUP.
func TestAnInterruptionEndsTheStagesProcesses(t *testing.T) {
	root := repository(t, `
endless:
	@nohup sleep 1000 >/dev/null & echo $$! >pid; wait
cluster-down:
	@true
`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var out strings.Builder
	go func() {
		done <- runTier(ctx, options{cacheFolder: t.TempDir(), stages: []Stage{{Name: "endless", Make: []string{"endless"}}}},
			root, &out)
	}()
	pid := ""
	await.True(t, "the stage's process", func() bool {
		text, err := os.ReadFile(filepath.Join(root, "pid"))
		pid = strings.TrimSpace(string(text))
		return err == nil && pid != ""
	})
	cancel()
	if err := await.Receive(t, "the end of the run", done); err == nil {
		t.Errorf("an interrupted run is no error:\n%s", &out)
	}
	if got := summaryOf(t, out.String()); len(got.Failed) != 0 || !slices.Equal(got.Skipped, []string{"endless"}) || got.Passed {
		t.Errorf("the interrupted stage is not skipped: %+v", got)
	}
	// If the exit status is not collected yet, the process is a zombie.
	if state, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("the process goes on: %s", state)
	}
}

func TestInputs(t *testing.T) {
	root := repository(t, "good:\n\t@true\n")
	write(t, filepath.Join(root, ".gitignore"), "ignored\n")
	write(t, filepath.Join(root, "docs", "page.md"), "text")
	c := cache{root: root, folder: t.TempDir()}
	stage := Stage{Name: "good", Make: []string{"good"}, Inputs: []string{"Makefile", "docs"}}
	tests := []struct {
		name    string
		change  func()
		stage   Stage
		isKnown bool
	}{
		{name: "the first time", change: func() {}, stage: stage},
		{name: "nothing has changed", change: func() {}, stage: stage, isKnown: true},
		{
			name: "another file", change: func() { write(t, filepath.Join(root, "other.go"), "package x") }, stage: stage,
			isKnown: true,
		},
		{
			name: "an ignored file", change: func() { write(t, filepath.Join(root, "docs", "ignored"), "x") }, stage: stage,
			isKnown: true,
		},
		{
			name: "a file that git does not know yet", change: func() { write(t, filepath.Join(root, "docs", "new.md"), "x") },
			stage: stage,
		},
		{name: "another content", change: func() { write(t, filepath.Join(root, "docs", "page.md"), "other") }, stage: stage},
		{
			name: "the old content", change: func() { write(t, filepath.Join(root, "docs", "page.md"), "text") }, stage: stage,
			isKnown: true,
		},
		{name: "a file is gone", change: func() { _ = os.Remove(filepath.Join(root, "docs", "page.md")) }, stage: stage},
		{
			name: "another call of make", change: func() {},
			stage: Stage{Name: "good", Make: []string{"good", "X=1"}, Inputs: stage.Inputs},
		},
		{name: "no inputs", change: func() {}, stage: Stage{Name: "good", Make: []string{"good"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.change()
			record, err := c.record(t.Context(), tt.stage)
			if err != nil {
				t.Fatal(err)
			}
			if _, found := record.passed(); found != tt.isKnown {
				t.Errorf("cached: %v, want %v", found, tt.isKnown)
			}
			if err := record.write("now"); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("fresh", func(t *testing.T) {
		c.isFresh = true
		record, err := c.record(t.Context(), stage)
		if _, found := record.passed(); found || err != nil {
			t.Errorf("cached: %v, %v", found, err)
		}
	})
	t.Run("a path without files", func(t *testing.T) {
		if _, err := c.record(t.Context(), Stage{Name: "x", Inputs: []string{"nothing-here"}}); err == nil {
			t.Error("no error")
		}
	})
}

// TestTheChartIsAPrerequisite checks that a missing chart is an error, and does not leave tests out.
func TestTheChartIsAPrerequisite(t *testing.T) {
	folder := t.TempDir()
	for _, missing := range []string{"", folder} {
		if err := checkChart(missing); err == nil || !strings.Contains(err.Error(), "set CHART=") {
			t.Errorf("%q: %v", missing, err)
		}
	}
	write(t, filepath.Join(folder, "Chart.yaml"), "name: argo-rollouts\n")
	if err := checkChart(folder); err != nil {
		t.Error(err)
	}
}

// TestTheAddOnIsAPrerequisite checks the same for the source of the KEDA HTTP add-on.
func TestTheAddOnIsAPrerequisite(t *testing.T) {
	folder := t.TempDir()
	for _, missing := range []string{"", folder} {
		if err := checkAddOn(missing); err == nil || !strings.Contains(err.Error(), "set ADD_ON=") {
			t.Errorf("%q: %v", missing, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, "config", "default"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "config", "default", "kustomization.yaml"), "resources: []\n")
	if err := checkAddOn(folder); err != nil {
		t.Error(err)
	}
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		args        []string
		code        int
		wantMessage string
	}{
		{args: nil, code: 2, wantMessage: "invalid usage: want one tier"},
		{args: []string{"all"}, code: 2, wantMessage: "invalid usage: want one tier"},
		{args: []string{"landing"}, code: 2, wantMessage: "--cache is missing"},
		{args: []string{"--cache=x", "--only=nope", "landing"}, code: 2, wantMessage: `--only: there is no stage "nope"`},
		{
			args: []string{"--cache=x", "--list", "--only=unit,demo", "quick"},
			wantMessage: "programs         make tools-cluster\nparts            make parts\nunit             make test-unit\n" +
				"demo             make demo ARGS=--only=canary\n",
		},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out strings.Builder
			if code := command(t.Context(), tt.args, &out, &out); code != tt.code ||
				!strings.Contains(out.String(), tt.wantMessage) {
				t.Errorf("exit status %d, want %d; output lacks %q:\n%s", code, tt.code, tt.wantMessage, &out)
			}
		})
	}
}
