package tls

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// plain is the namespace with proxies without TLS, and plainRate the number of requests per second to them.
	plain, plainRate = "plain", 50
	// keda is the namespace of the interceptor.
	keda        = "keda"
	interceptor = "deployment/keda-add-ons-http-interceptor"
	mode        = "{.metadata.annotations.http\\.kedify\\.io/proxy-authentication}"
)

// TestTLS replaces the certificate of the interceptor, and the interceptor, during a canary of proxies with TLS. Proxies
// without TLS in another namespace serve meanwhile. No request fails. A Pod without a token that counts as a proxy of the
// strict fleet is not served.
func TestTLS(t *testing.T) {
	b := testbed.Up(t, provider.Spec{
		Addons: []string{"keda", "traefik"}, Forwards: map[string]string{
			provider.IngressAddress: provider.IngressTarget, plain: "kedify-proxy." + plain + ".svc.cluster.local:8080",
		},
	})
	k := testbed.Kubectl{Cluster: b.Cluster}
	k.ExplainFailure(t, []string{"logs", "-n", keda, interceptor, "--tail=60"}, []string{"get", "pods", "-A"})
	b.DeployAutowired(t)
	k.Do(t, "-n", testbed.Namespace, "wait", "service/kedify-proxy", "--for=jsonpath="+mode+"=strict")
	deployPlain(t, k, b.Repo)
	others, err := load.Start(t.Context(), load.Config{
		Address: b.Cluster.Addresses[plain], Host: "web.test", Path: "/color", Rate: plainRate, Colors: guide.Colors(),
		Timeout: testbed.RequestTimeout(), MaxInFlight: int(plainRate * testbed.RequestTimeout().Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	verdict := b.RunCanary(t.Context(), testbed.Canary{
		From: "blue", To: "yellow", Final: "yellow", Weights: []int{20, 50, 80},
		Requested: []int{0, 20, 50, 80, 100, 0}, ThroughIngress: true,
	}, func(ctx context.Context, trial *testbed.Trial) error {
		return rotate(ctx, t, k, b, trial)
	})
	totals, _ := others.Stop()
	if tally := trace.Summarize(others.Results(), nil, testbed.RequestTimeout()); tally.Failed > 0 || tally.Sent == 0 {
		invariant.Broken(t, invariant.FailedRequests, "without TLS: %d of %d requests failed: %v", tally.Failed, tally.Sent,
			tally.Reasons)
	} else {
		t.Logf("without TLS: %d requests, none failed; lag %v", tally.Sent, totals.Lag)
	}
	verdict.Print(t.Output())
	for _, finding := range verdict.Findings {
		finding.Report(t)
	}
	t.Run("a proxy without a token", func(t *testing.T) { refuse(t, k, b.Repo) })
}

// rotate drives a canary. Between its steps the certificate and the interceptor are replaced, in both orders.
//
//nolint:contextcheck // kubectl runs with the context of the test
func rotate(ctx context.Context, t *testing.T, k testbed.Kubectl, b *testbed.Testbed, trial *testbed.Trial) error {
	t.Helper()
	if err := trial.RunStep(ctx, 0, 20); err != nil {
		return err
	}
	replaceCertificate(t, k)
	if err := trial.RunStep(ctx, 1, 50); err != nil {
		return err
	}
	restart(t, k)
	if err := trial.RunStep(ctx, 2, 80); err != nil {
		return err
	}
	replaceCertificate(t, k)
	restart(t, k)
	return b.Argo(ctx, "promote", testbed.App)
}

// replaceCertificate deletes the Secret, and waits until the agent has made another certificate and the interceptor
// serves it.
func replaceCertificate(t *testing.T, k testbed.Kubectl) {
	t.Helper()
	loaded := func() int {
		return strings.Count(k.Do(t, "logs", "-n", keda, "-l", "app.kubernetes.io/component=interceptor", "--tail=-1"),
			"certificate of the interceptor loaded")
	}
	before := loaded()
	k.Do(t, "-n", keda, "delete", "secret", "kedify-http-interceptor-tls")
	await.True(t, "the interceptor serves another certificate", func() bool { return loaded() > before })
}

// restart replaces the interceptor, and waits until the previous one has ended.
func restart(t *testing.T, k testbed.Kubectl) {
	t.Helper()
	pods := func() []string {
		return strings.Fields(k.Do(t, "-n", keda, "get", "pods", "-l", "app.kubernetes.io/component=interceptor", "-o", "name"))
	}
	before := pods()
	k.Do(t, "-n", keda, "rollout", "restart", interceptor)
	k.Do(t, "-n", keda, "rollout", "status", interceptor)
	await.True(t, "the previous interceptor has ended", func() bool {
		now := pods()
		return !slices.ContainsFunc(before, func(name string) bool { return slices.Contains(now, name) })
	})
}

// deployPlain starts the application behind proxies without TLS.
func deployPlain(t *testing.T, k testbed.Kubectl, repo string) {
	t.Helper()
	k.CreateNamespace(t, plain)
	k.Do(t, "-n", plain, "apply", "-k", filepath.Join(repo, "config", "kedify-proxy"))
	k.Do(t, "-n", plain, "apply", "-f", "plain.yaml")
	k.Do(t, "-n", plain, "rollout", "status", "deployment/kedify-proxy")
	k.Do(t, "-n", plain, "rollout", "status", "deployment/web")
	k.Do(t, "-n", plain, "wait", "httpscaledobject/web", "--for=condition=Programmed")
	if got := k.Do(t, "-n", plain, "get", "service/kedify-proxy", "-o", "jsonpath="+mode); got != "" {
		t.Fatalf("the fleet of others is %s", got)
	}
}

// refuse starts a proxy without TLS in the namespace of the strict fleet. Its Service selects it, so it has an address of
// the fleet.
func refuse(t *testing.T, k testbed.Kubectl, repo string) {
	t.Helper()
	const bootstrap, other = "kedify-proxy-bootstrap", "proxy-without-token"
	for _, name := range []string{"configmap.yaml", "deployment.yaml"} {
		text, err := os.ReadFile(filepath.Join(repo, "config", "kedify-proxy", name))
		if err != nil {
			t.Fatal(err)
		}
		renamed := strings.Replace(strings.ReplaceAll(string(text), bootstrap, other), "name: kedify-proxy\n", "name: "+other+"\n", 1)
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(renamed), 0o600); err != nil {
			t.Fatal(err)
		}
		k.Do(t, "-n", testbed.Namespace, "apply", "-f", file)
	}
	await.True(t, "the interceptor rejects it", func() bool {
		return strings.Contains(k.Do(t, "logs", "-n", keda, interceptor), "fleet "+testbed.Namespace+" is strict")
	})
	ready := k.Do(t, "-n", testbed.Namespace, "get", "deployment", other, "-o", "jsonpath={.status.readyReplicas}")
	if ready != "" {
		t.Errorf("%s of these proxies are ready", ready)
	}
}
