package canary

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// tried is the output of `try --output json`.
type tried struct {
	Agrees    bool    `json:"agrees"`
	EndAgrees bool    `json:"endAgrees"`
	Removed   bool    `json:"removed"`
	End       string  `json:"end"`
	Weight    int     `json:"weight"`
	Canary    int     `json:"canary"`
	Measured  int     `json:"measured"`
	Requests  int     `json:"requests"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`
}

// TestTry runs temporary canaries with the kubectl plugin on a cluster without preparation, and interrupts some of
// them. In the end the cluster is unchanged.
func TestTry(t *testing.T) {
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{"envoy-gateway"}})
	w := tryEnvironment{Cluster: cluster}
	w.gateway(t, repo)
	before := w.allObjects(t)
	for _, test := range []struct {
		name string
		args []string
		end  string
	}{
		{"kedify/http", nil, "promoted"},
		{"kedify/http, aborted", []string{"--abort", "--weight=50", "--requests=400"}, "aborted"},
		{
			"argoproj-labs/gatewayAPI",
			[]string{"--router=argoproj-labs/gatewayAPI", "--gateway=istio-ingress/my-gateway"},
			"promoted",
		},
	} {
		t.Run(test.name, func(t *testing.T) { w.runTry(t, test.end, test.args...) })
	}
	for _, at := range []string{" created", "Load: ", "Canary: ", "Deleting namespace"} {
		t.Run("interrupted at: "+at, func(t *testing.T) { w.interruptTry(t, at) })
	}
	if diff := cmp.Diff(before, w.allObjects(t)); diff != "" {
		t.Errorf("what is there (-before +after):\n%s", diff)
	}
}

// tryEnvironment is the cluster of the trials.
type tryEnvironment struct{ *provider.Cluster }

// kubectl runs kubectl, which must succeed.
func (w *tryEnvironment) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.CommandTimeout())
	defer cancel()
	out, err := w.Run(ctx, append([]string{"kubectl"}, args...)...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// gateway creates the guide's Gateway and removes it after the test.
func (w *tryEnvironment) gateway(t *testing.T, repo string) {
	t.Helper()
	examples := filepath.Join(repo, "examples", "gatewayapi")
	files := []string{
		"-f", filepath.Join(examples, "gatewayclass.yaml"), "-f",
		filepath.Join(examples, "my-app", "gateway.yaml"),
	}
	w.kubectl(t, append([]string{"apply", "--server-side"}, files...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if out, err := w.Run(ctx, append([]string{"kubectl", "delete", "--ignore-not-found"}, files...)...); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	w.kubectl(t, "-n", "istio-ingress", "wait", "gateway/my-gateway", "--for=condition=Programmed", testbed.WaitTimeout())
}

// allObjects returns the names of all objects that a trial could leave or change, and the list of plugins.
func (w *tryEnvironment) allObjects(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, args := range [][]string{
		{"namespaces,clusterroles,clusterrolebindings,customresourcedefinitions,gatewayclasses"},
		{"rollouts,deployments,replicasets,httpscaledobjects,httproutes,gateways,services,configmaps,serviceaccounts,poddisruptionbudgets", "--all-namespaces"},
	} {
		out := w.kubectl(t, append(append([]string{"get"}, args...), "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`)...)
		all = append(all, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	return append(all, w.kubectl(t, "-n", "argo-rollouts", "get", "configmap",
		"argo-rollouts-config", "-o", "jsonpath={.data}"))
}

// command returns the command `try` with arguments.
func (w *tryEnvironment) command(ctx context.Context, args ...string) *exec.Cmd {
	image := config.Registry + "/" + config.SampleImage + ":dev"
	command := exec.CommandContext(ctx, plugin(),
		append([]string{"try", "--kubeconfig", w.Kubeconfig, "--image=" + image, "--yes"}, args...)...)
	command.Env = os.Environ()
	return command
}

// runTry runs a trial to its end.
func (w *tryEnvironment) runTry(t *testing.T, end string, args ...string) {
	t.Helper()
	command := w.command(t.Context(), append(args, "--output=json")...)
	var output strings.Builder
	command.Stderr = &output
	out, err := command.Output()
	var got tried
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v: %s%s", err, output.String(), out)
	}
	fmt.Fprintf(t.Output(), "%d of %d requests failed, %.0f s; desired %d %%, measured %d of %d; %s\n",
		got.Failed, got.Requests, got.Seconds, got.Weight, got.Canary, got.Measured, got.End)
	if got.Failed > 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d requests of try %s failed", got.Failed,
			got.Requests, strings.Join(args, " "))
	}
	if !got.Agrees || !got.EndAgrees || !got.Removed || got.Requests < got.Measured || got.End != end {
		t.Errorf("try succeeded with output %s", out)
	}
	w.checkNothingRemains(t)
}

// interruptTry interrupts a trial after a line with the text at.
func (w *tryEnvironment) interruptTry(t *testing.T, at string) {
	t.Helper()
	// Few requests, so that the trial also reaches the removal.
	command := w.command(t.Context(), "--requests=100")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	command.Stderr = &problems
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines, isThere := bufio.NewScanner(out), false
	for !isThere && lines.Scan() {
		isThere = strings.Contains(lines.Text(), at)
	}
	began := time.Now()
	if err := command.Process.Signal(syscall.SIGINT); err != nil || !isThere {
		t.Fatalf("%q is not printed, or it has ended: %v, %s", at, err, problems.String())
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Error(err)
	}
	_ = command.Wait() // the exit code is checked
	fmt.Fprintf(t.Output(), "interrupted at %q: it has ended after %.0f s with %d: %s\n", at, time.Since(began).Seconds(),
		command.ProcessState.ExitCode(), &problems)
	// During the removal the canary is complete and has its result.
	if code := command.ProcessState.ExitCode(); code != 1 && (code != 0 || at != "Deleting namespace") {
		t.Errorf("interrupted it ends with %d:\n%s%s", code, rest, problems.String())
	}
	if code := command.ProcessState.ExitCode(); code == 1 && !strings.Contains(problems.String(), "interrupt") {
		t.Errorf("the output does not contain the interruption: %s", problems.String())
	}
	w.checkNothingRemains(t)
}

// checkNothingRemains checks that no namespace of a trial exists after the end of the command.
func (w *tryEnvironment) checkNothingRemains(t *testing.T) {
	t.Helper()
	if left := w.kubectl(t, "get", "namespaces", "-l", "http.kedify.io/try", "-o", "name"); left != "" {
		t.Errorf("it leaves %s", left)
	}
}
