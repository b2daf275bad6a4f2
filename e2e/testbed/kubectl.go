package testbed

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Kubectl runs kubectl on a cluster for a test.
type Kubectl struct {
	*provider.Cluster

	// Namespace is the default namespace of the commands; empty for kubectl's own default.
	Namespace string
}

// WaitTimeout returns the flag that makes a kubectl command wait for await.Patience.
func WaitTimeout() string { return "--timeout=" + await.Patience().String() }

// WithPatience replaces the time limits of commands in a script by await.Patience.
func WithPatience(script string) string {
	return regexp.MustCompile(`--timeout[= ]\d+[hms]+`).ReplaceAllString(script, WaitTimeout())
}

// command returns the command line. A namespace in args overrides the default. Commands that wait get WaitTimeout.
func (k Kubectl) command(args []string) []string {
	if args[0] == "wait" || len(args) > 1 && args[0] == "rollout" && args[1] == "status" {
		args = append(slices.Clone(args), WaitTimeout())
	}
	if k.Namespace == "" {
		return append([]string{"kubectl"}, args...)
	}
	return append([]string{"kubectl", "--namespace", k.Namespace}, args...)
}

// Do runs kubectl, which must succeed, and returns its output.
func (k Kubectl) Do(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), CommandTimeout())
	defer cancel()
	out, err := k.Run(ctx, k.command(args)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// Argo runs a command of kubectl-argo-rollouts in the namespace, which must succeed.
func (k Kubectl) Argo(t *testing.T, args ...string) {
	t.Helper()
	command := append([]string{"kubectl", "argo", "rollouts", "-n", k.Namespace}, args...)
	if _, err := k.Run(t.Context(), command...); err != nil {
		t.Fatal(err)
	}
}

// CreateNamespace creates a namespace and requests its deletion when the test ends. It first waits for the deletion
// that an earlier test may have requested: a proxy, for example, drains for 30 s.
func (k Kubectl) CreateNamespace(t *testing.T, name string) {
	t.Helper()
	k.Do(t, "wait", "ns", name, "--for=delete")
	k.Do(t, "create", "ns", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), CommandTimeout())
		defer cancel()
		if _, err := k.Run(ctx, "kubectl", "delete", "ns", name, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
}

// ExplainFailure logs the output of kubectl commands when the test fails. Objects that were created before this call
// still exist then.
func (k Kubectl) ExplainFailure(t *testing.T, commands ...[]string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), CommandTimeout())
		defer cancel()
		for _, args := range commands {
			out, err := k.Run(ctx, k.command(args)...)
			t.Logf("kubectl %s (%v)\n%s", strings.Join(args, " "), err, out)
		}
	})
}
