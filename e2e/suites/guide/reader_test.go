package guide

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// reader runs the commands of the guide.
type reader struct {
	*provider.Cluster

	repo string
	dir  string // folder with the guide's manifests.yaml
}

// launch starts a cluster with the guide's prerequisites: an Ingress controller that publishes an address, KEDA, and
// this project's components.
func launch(t *testing.T) *reader {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons: []string{"keda", "traefik"}, Forwards: map[string]string{provider.IngressAddress: provider.IngressTarget},
	})
	r := &reader{Cluster: cluster, repo: repo}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := r.Run(ctx, "kubectl", "delete", "ns", "rollouts-demo", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	testbed.Kubectl{Cluster: cluster, Namespace: "rollouts-demo"}.ExplainFailure(t,
		[]string{"get", "ingress,scaledobject,httpso,rollout", "-o", "yaml"},
		[]string{"get", "pods,endpointslices,events"},
		[]string{"logs", "-n", "keda", "deployment/kedify-http-agent", "--all-pods", "--tail=60"},
		[]string{"logs", "-n", "argo-rollouts", "deployment/argo-rollouts", "--tail=40"})
	return r
}

// awaitLine runs a kubectl command that waits, with the time limit await.Patience.
func (r *reader) awaitLine(t *testing.T, line string) {
	t.Helper()
	r.runLine(t, line+" "+testbed.WaitTimeout())
}

// runLine runs a shell command line and returns its output.
func (r *reader) runLine(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.CommandTimeout())
	defer cancel()
	began := time.Now()
	out, err := r.Run(ctx, "bash", "-euo", "pipefail", "-c", "cd '"+r.dir+"'\n"+line)
	if err != nil {
		t.Fatalf("$ %s\n%s%v", line, out, err)
	}
	t.Logf("[%.1f s]\n$ %s\n%s", time.Since(began).Seconds(), line, out)
	return strings.TrimRight(out, "\n")
}

// until waits until the output of a command line is as expected.
func (*reader) until(t *testing.T, what string, look func() (string, bool)) {
	t.Helper()
	output := ""
	await.Described(t, what, func() bool {
		text, ok := look()
		output = text
		return ok
	}, func() string { return output })
}
