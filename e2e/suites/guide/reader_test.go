package guide

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/await"
	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

const (
	// command bounds a command that is answered at once, wait one that waits for something.
	command, wait = 60 * time.Second, 4 * time.Minute
	// soon bounds what comes by itself after a command.
	soon = 30 * time.Second
)

// reader is somebody who types what the guide says.
type reader struct {
	*provider.Cluster

	repo string
	dir  string // with the guide's manifests.yaml
}

// launch brings a cluster up that has what the guide asks for: an Ingress controller that publishes an address, KEDA, and
// what this project puts beside it.
func launch(t *testing.T) *reader {
	t.Helper()
	cluster, repo := bed.Launch(t, provider.Wishes{
		Addons: []string{"keda", "traefik"}, Forwards: map[string]string{provider.IngressAddress: provider.IngressTarget},
	})
	r := &reader{Cluster: cluster, repo: repo}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait)
		defer cancel()
		if _, err := r.Run(ctx, "kubectl", "delete", "ns", "rollouts-demo", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	bed.Kubectl{Cluster: cluster, Namespace: "rollouts-demo"}.ExplainFailure(t,
		[]string{"get", "ingress,scaledobject,httpso,rollout", "-o", "yaml"},
		[]string{"get", "pods,endpointslices,events"},
		[]string{"logs", "-n", "keda", "deployment/kedify-http-agent", "--all-pods", "--tail=60"},
		[]string{"logs", "-n", "argo-rollouts", "deployment/argo-rollouts", "--tail=40"})
	return r
}

// types runs a line of shell, and returns what it prints.
func (r *reader) types(t *testing.T, line string) string {
	t.Helper()
	return r.runs(t, line, command)
}

// waits runs a line of shell that may take long.
func (r *reader) waits(t *testing.T, line string) {
	t.Helper()
	r.runs(t, line, wait)
}

func (r *reader) runs(t *testing.T, line string, within time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	began := time.Now()
	out, err := r.Run(ctx, "bash", "-euo", "pipefail", "-c", "cd '"+r.dir+"'\n"+line)
	if err != nil {
		t.Fatalf("$ %s\n%s%v", line, out, err)
	}
	t.Logf("[%.1f s]\n$ %s\n%s", time.Since(began).Seconds(), line, out)
	return strings.TrimRight(out, "\n")
}

// until waits until something that a line prints is as it should be.
func (*reader) until(t *testing.T, what string, look func() (string, bool)) {
	t.Helper()
	said := ""
	err := await.Until(t.Context(), what, soon, func() bool {
		text, ok := look()
		said = text
		return ok
	}, func() string { return said })
	if err != nil {
		t.Fatal(err)
	}
}
