package guide

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/tutorial"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// ingressPage is the page of TestIngress, its application's namespace and host, and the requests per second, for which
// one replica is enough.
const (
	ingressPage      = "scale-an-ingress.md"
	ingressNamespace = "shop"
	ingressHost      = "shop.example.com"
	ingressRate      = 8
)

// TestIngress runs the commands of docs/how-to/scale-an-ingress.md and compares their output with the page. Requests
// arrive through the Ingress while it is wired and while it is restored, and none fails.
func TestIngress(t *testing.T) {
	r := launch(t)
	r.dir = t.TempDir()
	r.writeManifests(t)
	testbed.Kubectl{Cluster: r.Cluster, Namespace: ingressNamespace}.CreateNamespace(t, ingressNamespace)
	text, err := os.ReadFile(filepath.Join(r.repo, "docs", "how-to", ingressPage))
	if err != nil {
		t.Fatal(err)
	}
	before, stop := "", func() {}
	for _, step := range tutorial.Read(string(text), "Next") {
		switch {
		case strings.Contains(step.Commands, "apply -f scaledobject.yaml"):
			before = r.ingressSpec(t)
			stop = r.sendRequests(t)
		case strings.Contains(step.Commands, `"minReplicaCount":0`):
			stop() // The application has to have no requests.
		case strings.Contains(step.Commands, "delete scaledobject"):
			stop = r.sendRequests(t)
		}
		ingress := "INGRESS=" + r.Addresses[provider.IngressAddress] + "\n"
		if err := step.Compare(r.runLine(t, ingress+testbed.WithPatience(step.Commands))); err != nil {
			t.Errorf("$ %s%v", step.Commands, err)
		}
	}
	stop()
	if after := r.ingressSpec(t); before == "" || after != before {
		t.Errorf("spec of the Ingress, restored: %s\nbefore: %s", after, before)
	}
}

// writeManifests writes the files of the page that its commands apply.
func (r *reader) writeManifests(t *testing.T) {
	t.Helper()
	page, err := pages.Read(filepath.Join(r.repo, "docs", "how-to"), ingressPage)
	if err != nil {
		t.Fatal(err)
	}
	for name, heading := range map[string]string{
		"shop.yaml": "Scale an application behind an Ingress", "scaledobject.yaml": "Scale it by requests",
	} {
		manifest := testbed.Block(t, page, heading, "yaml", 0)
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ingressSpec returns the spec of the page's Ingress.
func (r *reader) ingressSpec(t *testing.T) string {
	t.Helper()
	return r.runLine(t, "kubectl -n "+ingressNamespace+" get ingress shop -o jsonpath={.spec}")
}

// sendRequests sends requests through the Ingress controller until the returned function is called. None may fail.
func (r *reader) sendRequests(t *testing.T) (stop func()) {
	t.Helper()
	target := load.Config{
		Address: r.Addresses[provider.IngressAddress], Host: ingressHost, Path: "/color", Rate: ingressRate,
		Timeout: await.Patience(), MaxInFlight: int(ingressRate * await.Patience().Seconds()), Colors: []string{"blue"},
	}
	await.True(t, "the Ingress controller routes the host", func() bool {
		_, err := load.Probe(t.Context(), target)
		return err == nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	client, err := load.Start(ctx, target)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return func() {
		totals, _ := client.Stop()
		cancel()
		t.Logf("%d of %d requests failed", totals.Failed, totals.Ended)
		if totals.Failed > 0 || totals.Ended == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v", totals.Failed, totals.Ended, totals.Reasons)
		}
	}
}
