package testbed

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Kubectl is kubectl on a cluster, for a test.
type Kubectl struct {
	*provider.Cluster

	// Namespace is that of commands that name no other one; empty for the one that kubectl takes.
	Namespace string
}

// WaitTimeout is the flag with which a command of kubectl waits for await.Patience.
func WaitTimeout() string { return "--timeout=" + await.Patience().String() }

// command is the command of kubectl. A later namespace takes the place of an earlier one. Commands that wait have
// WaitTimeout.
func (k Kubectl) command(args []string) []string {
	if args[0] == "wait" || len(args) > 1 && args[0] == "rollout" && args[1] == "status" {
		args = append(slices.Clone(args), WaitTimeout())
	}
	if k.Namespace == "" {
		return append([]string{"kubectl"}, args...)
	}
	return append([]string{"kubectl", "--namespace", k.Namespace}, args...)
}

// Do runs kubectl, which must succeed, and returns what it says.
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

// CreateNamespace makes a namespace, which is told to go when the test ends. A test before this one may have told it
// that: what is in it takes its time then, such as a proxy that serves on for 30 s.
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

// ExplainFailure shows at the end of a test that has failed what commands of kubectl say. What was made before it is
// called is there then.
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
