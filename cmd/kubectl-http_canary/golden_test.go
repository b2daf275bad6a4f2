package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/files"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

var update = flag.Bool("update", false, "write the golden files")

// compareGolden compares an output with a golden file.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Clean(path))
	if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
		t.Errorf("%s: %v: run \"make golden\" if the change is intended (-want +got):\n%s", path, err, diff)
	}
}

// execute runs a command line without a cluster, and returns its output, its errors and its exit code.
func execute(t *testing.T, args ...string) (out, problems string, code int) {
	t.Helper()
	command := newCommand()
	var printed, failed bytes.Buffer
	command.SetOut(&printed)
	command.SetErr(&failed)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	if line := errorLine(err); line != "" {
		failed.WriteString(line + "\n")
	}
	return printed.String(), failed.String(), exitCode(err)
}

// TestHelp has the help of every command.
func TestHelp(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	var walk func(*cobra.Command, []string)
	walk = func(command *cobra.Command, path []string) {
		if command.Name() == "completion" || command.Name() == "help" {
			return // those of cobra
		}
		out, _, code := execute(t, append(path, "--help")...)
		if code != 0 {
			t.Errorf("%v --help: exit code %d", path, code)
		}
		before, _, _ := strings.Cut(out, "\nGlobal Flags:")
		compareGolden(t, filepath.Join("help", strings.Join(append([]string{"kubectl-http-canary"}, path...), "_")+".txt"),
			before)
		for _, child := range command.Commands() {
			if !child.Hidden {
				walk(child, append(slices.Clip(path), child.Name()))
			}
		}
	}
	walk(newCommand(), nil)
}

// TestOffline has the output of doctor for sound and for broken manifests, without a kubeconfig.
func TestOffline(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	for _, test := range []struct {
		golden string
		args   []string
		code   int
	}{
		{"offline/sound.txt", []string{"doctor", "--filename", "testdata/manifests/sound.yaml"}, 0},
		{"offline/broken.txt", []string{"doctor", "--filename", "testdata/manifests/broken"}, 3},
		{"offline/name.txt", []string{"doctor", "--filename", "testdata/manifests/broken", "-o", "name"}, 3},
		{"offline/never.txt", []string{"doctor", "-f", "testdata/manifests/broken", "--quiet", "--fail-on=never"}, 0},
		{"offline/warning.txt", []string{"doctor", "-f", "testdata/manifests/partial.yaml", "-q", "--fail-on", "warning"}, 3},
	} {
		t.Setenv("LC_ALL", "C.UTF-8")
		out, problems, code := execute(t, test.args...)
		if code != test.code || problems != "" {
			t.Errorf("%v: exit code %d, want %d: %s", test.args, code, test.code, problems)
		}
		compareGolden(t, test.golden, out)
	}
	for _, args := range [][]string{
		{"doctor", "--filename", "testdata/nowhere"},
		{"doctor", "-f", "testdata/help"},
		{"doctor", "--filename", "testdata/manifests/sound.yaml", "--pre"},
		{"doctor", "--fail-on=all"},
		{"doctor", "--category=network"},
		{"doctor", "--suppress=Nothing"},
		{"explain", "Nothing"},
		{"explain", "a", "b"},
		{"doctor", "--wait", "--fail-on=never"},
		{"status", "shop", "--watch", "--for=ready"},
		{"status", "shop", "--sent", "--for=ready"},
		{"status", "shop", "--watch", "-o", "name"},
		{"status", "shop", "--for=done"},
		{"status", "shop", "--for=ready=20"},
		{"list", "-w", "-o", "yaml"},
		{"doctor", "--color=blue"},
		{"list", "-o", "xml"},
	} {
		if _, problems, code := execute(t, args...); code == 0 || problems == "" {
			t.Errorf("%v: exit code %d, errors %q", args, code, problems)
		} else {
			name := strings.NewReplacer("/", "_", "=", "_").Replace(strings.Join(args, "_"))
			compareGolden(t, filepath.Join("errors", name+".txt"), problems)
		}
	}
}

// moment is the canary of testdata/canaries at a step of the demo.
type moment struct {
	name, file string
}

// moments are the steps of the demo.
func moments() []moment {
	return []moment{
		{"before", "1-before.yaml"},
		{"requested", "2-requested.yaml"},
		{"verified", "3-verified.yaml"},
		{"promoted", "4-promoted.yaml"},
		{"aborted", "5-aborted.yaml"},
	}
}

// readMoment returns the facts of a step. Endpoints are those of running Pods.
func readMoment(t *testing.T, file string) *facts.Facts {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "canaries", filepath.Clean(file)))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := files.Read([]files.File{{Name: file, Content: content}}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for name := range cluster.Services {
		cluster.ReadyEndpoints[name] = 2
	}
	cluster.Now = time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	return cluster
}

// TestStatusAndListAtEveryStep has the output of status and list in all formats at each step of the demo.
func TestStatusAndListAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range moments() {
		cluster := readMoment(t, step.file)
		report := split.Of(cluster, &cluster.Rollouts[0])
		var status, list, line bytes.Buffer
		for _, err := range []error{
			split.PrintStatus(&status, output.Table, true, output.Style{}, &report),
			newListPrinter(&listOptions{outputFlags: outputFlags{format: output.Table}, isAll: true}, &list, &list).print(cluster),
			printLines(&line, true, report),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		compareGolden(t, "status/"+step.name+".txt", status.String())
		compareGolden(t, "list/"+step.name+".txt", list.String())
		compareGolden(t, "watch/"+step.name+".txt", line.String())
	}
	cluster := readMoment(t, "3-verified.yaml")
	report := split.Of(cluster, &cluster.Rollouts[0])
	for _, format := range []output.Format{output.Wide, output.JSON, output.YAML, output.Name} {
		var status, list bytes.Buffer
		options := statusOptions{outputFlags: outputFlags{format: format}, show: &display{color: output.Never}}
		lists := newListPrinter(&listOptions{outputFlags: outputFlags{format: format}, isAll: true}, &list, &list)
		if err := options.print(&status, &report); err != nil {
			t.Fatal(err)
		}
		if err := lists.print(cluster); err != nil {
			t.Fatal(err)
		}
		compareGolden(t, "status/format-"+string(format)+".txt", status.String())
		compareGolden(t, "list/format-"+string(format)+".txt", list.String())
	}
}

// TestGoals is status --for at each step of the demo.
func TestGoals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		goal string
		// reached and lost are the steps at which the goal is reached, and at which it can no longer be.
		reached, lost string
	}{
		{"ready", "before requested verified promoted", ""},
		{"verified", "before verified promoted aborted", ""},
		{"verified=20", "verified", "aborted"},
		{"verified=0", "before promoted aborted", ""},
		{"promoted", "before promoted", "aborted"},
	} {
		target, err := parseGoal(test.goal)
		if err != nil {
			t.Fatal(err)
		}
		var reached, lost []string
		for _, step := range moments() {
			cluster := readMoment(t, step.file)
			report := split.Of(cluster, &cluster.Rollouts[0])
			switch {
			case target.isReached(&report):
				reached = append(reached, step.name)
			case target.isLost(&report):
				lost = append(lost, step.name)
			}
		}
		if got := strings.Join(reached, " "); got != test.reached {
			t.Errorf("--for=%s is reached at %q, want %q", test.goal, got, test.reached)
		}
		if got := strings.Join(lost, " "); got != test.lost {
			t.Errorf("--for=%s is lost at %q, want %q", test.goal, got, test.lost)
		}
	}
}

// TestARetriedCanaryIsNotLost: after `kubectl argo rollouts retry` the phase is that of the abort for a moment.
func TestARetriedCanaryIsNotLost(t *testing.T) {
	t.Parallel()
	target, err := parseGoal("verified=20")
	if err != nil {
		t.Fatal(err)
	}
	for isAborted, want := range map[bool]bool{true: true, false: false} {
		cluster := readMoment(t, "5-aborted.yaml")
		cluster.Rollouts[0].Status.Abort = isAborted
		report := split.Of(cluster, &cluster.Rollouts[0])
		if got := target.isLost(&report); got != want {
			t.Errorf("aborted: %t: lost: %t; %+v", isAborted, got, report.Condition(split.Promoted))
		}
	}
}
