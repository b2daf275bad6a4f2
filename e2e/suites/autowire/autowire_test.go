package autowire

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/await"
	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/judge"
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

const (
	// namespace is that of the guide's objects and of their proxies.
	namespace = "autowired"
	// host takes the place of the guide's.
	host = "autowired.example.com"
	// entrance names the address of the Ingress controller.
	entrance = "ingress"
	// direct and proxied are the Services that the Ingress names in turn.
	direct, proxied = "rollouts-demo-stable", "kedify-proxy"
	// soon bounds what the agent does at once, with the requests of kubectl around it.
	soon = 10 * time.Second
	// takeover bounds what the agent does when its leader was killed: another one waits for the end of the lease, 15 s.
	takeover = 30 * time.Second
	// start bounds the start of Pods, and cool what comes after the agent's cool-down.
	start, cool = 90 * time.Second, 90 * time.Second
	// rate is how many requests come in a second.
	rate = 100
	// gap bounds how many requests may fail when all proxies go away at once: those of half a second. The Ingress controller
	// learns of it as soon as the agent does, and has nowhere to send them until it has seen the agent's write: 22 were lost.
	gap = rate / 2
	// settled is how long the load goes on after each change.
	settled = 3 * time.Second
)

// TestTheIngressFollowsTheProxies has the Ingress wired and unwired in each way there is. The requests come through the
// Ingress controller all the time.
func TestTheIngressFollowsTheProxies(t *testing.T) {
	cluster, repo := bed.Launch(t, provider.Wishes{
		Addons: []string{"keda", "traefik"}, Forwards: map[string]string{entrance: "traefik.traefik.svc.cluster.local:80"},
	})
	w := &way{Kubectl: bed.Kubectl{Cluster: cluster, Namespace: namespace}, repo: repo}
	w.deploy(t)
	original := w.spec(t)
	step := func(name, backend string, within time.Duration, change func()) {
		t.Helper()
		w.step(t, name, backend, within, 0, change)
	}
	step("there are no proxies yet", direct, 0, func() {})
	step("proxies come", proxied, start, func() { w.Do(t, "apply", "-k", filepath.Join(repo, "config", "kedify-proxy")) })
	w.waits(t)
	step("a canary at 20 %", proxied, 0, func() { w.canary(t) })
	step("the proxies are replaced", proxied, 0, func() { w.restart(t, namespace, "deployment/kedify-proxy") })
	step("the agents are killed", proxied, 0, func() {
		w.Do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--grace-period=0", "--force")
		w.Do(t, "rollout", "status", "-n", "keda", agents, "--timeout=60s")
	})
	step("a user says no", direct, takeover, func() { w.autowire(t, "false") })
	if diff := cmp.Diff(original, w.spec(t)); diff != "" {
		t.Errorf("the Ingress has its own backends back (-want +got):\n%s", diff)
	}
	step("a user says yes", proxied, soon, func() { w.autowire(t, "ingress") })
	step("the agent is about to be uninstalled", direct, start, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE=false") })
	if diff := cmp.Diff(original, w.spec(t)); diff != "" {
		t.Errorf("the Ingress has its own backends back (-want +got):\n%s", diff)
	}
	step("the agent stays", proxied, start, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE-") })
	w.step(t, "the proxies go away", direct, soon, gap, func() { w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=0") })
	step("the proxies are back", proxied, cool, func() {
		w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=2")
		w.Do(t, "rollout", "status", "deployment/kedify-proxy", "--timeout=60s")
	})
}

// agents are the agent's replicas.
const agents = "deployment/kedify-http-agent"

// way is a cluster with the guide's objects in it.
type way struct {
	bed.Kubectl

	repo string
}

// deploy applies the guide's objects, without proxies, and waits until the app answers through the Ingress controller. All
// of it goes with the test.
func (w *way) deploy(t *testing.T) {
	t.Helper()
	w.CreateNamespace(t, namespace)
	w.ExplainFailure(t, evidence()...)
	w.Do(t, "apply", "-f", bed.Fair(w.repo))
	example := filepath.Join(w.repo, "examples", "argo-rollouts-canary")
	for _, name := range []string{"manifests.yaml", "scaledobject.yaml"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		// The demo's Ingress has the guide's host, and an Ingress controller takes one of two.
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("rollouts-demo.example.com"), []byte(host)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Do(t, "apply", "-f", file)
	}
	// At the load of this test the guide's target would ask for more Pods than a laptop has room for.
	w.Do(t, "patch", "scaledobject/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/targetValue","value":"1000"}]`)
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy", "--timeout=90s")
	w.until(t, "an answer through the Ingress controller", start, "blue", func() string {
		color, err := load.Probe(t.Context(), w.load())
		if err != nil {
			return err.Error()
		}
		return color
	})
}

// load are the requests: through the Ingress controller, for the guide's host.
func (w *way) load() load.Config {
	return load.Config{
		Address: w.Addresses[entrance], Host: host, Path: "/color", Rate: rate, Timeout: 5 * time.Second,
		MaxInFlight: 200, Colors: []string{"blue", "yellow"},
	}
}

// step makes a change under load, after which the Ingress has to name a Service within some time; as soon as the change
// is made where that is 0. So many requests may fail.
func (w *way) step(t *testing.T, name, backend string, within time.Duration, lost int, change func()) {
	t.Helper()
	client, err := load.Start(t.Context(), w.load())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	began := time.Now()
	change()
	if within > 0 {
		w.until(t, name+": the backend", within, backend, func() string { return w.backend(t) })
	} else if is := w.backend(t); is != backend {
		t.Errorf("%s: the Ingress names Service %s, want %s", name, is, backend)
	}
	took := time.Since(began)
	<-time.After(settled)
	totals, _ := client.Stop()
	t.Logf("%-38s %-20s after %5.1f s, %d of %d requests failed %v", name, backend, took.Seconds(), totals.Failed, totals.Ended, totals.Reasons)
	if totals.Failed > lost {
		t.Errorf("%s: %d of %d requests failed, at most %d may", name, totals.Failed, totals.Ended, lost)
	}
}

// backend is the Service that the Ingress names.
func (w *way) backend(t *testing.T) string {
	t.Helper()
	return w.Do(t, "get", "ingress/rollouts-demo", "-o", "jsonpath={.spec.rules[0].http.paths[0].backend.service.name}")
}

// spec is what is written in the Ingress.
func (w *way) spec(t *testing.T) string {
	t.Helper()
	return w.Do(t, "get", "ingress/rollouts-demo", "-o", "jsonpath={.spec}")
}

// waits are the two waits of the public sample.
func (w *way) waits(t *testing.T) {
	t.Helper()
	w.Do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.status.loadBalancer.ingress}", "--timeout=60s")
	w.Do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy", "--timeout=60s")
}

// canary sets another image, and measures its share at the first pause.
func (w *way) canary(t *testing.T) {
	t.Helper()
	w.Do(t, "patch", "rollout/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]`)
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused", "--timeout=90s")
	client, err := load.Start(t.Context(), w.load())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found, err := judge.Asked{Color: "yellow", Share: 0.2, From: time.Now(), First: 1000, Fresh: 2000, Rule: stats.DefaultRule()}.Judge(ctx, client.Sample)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("20 %% asked: %d of %d requests through the Ingress got the new version", found.Hits, found.Total)
}

// autowire says whether the trigger's Ingresses are to be wired.
func (w *way) autowire(t *testing.T, value string) {
	t.Helper()
	w.Do(t, "patch", "scaledobject/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/trafficAutowire","value":"`+value+`"}]`)
}

// restart replaces the Pods of a workload.
func (w *way) restart(t *testing.T, in, workload string) {
	t.Helper()
	w.Do(t, "rollout", "restart", "-n", in, workload)
	w.Do(t, "rollout", "status", "-n", in, workload, "--timeout=90s")
}

// setAgents sets a variable of the agents, which are replaced by that.
func (w *way) setAgents(t *testing.T, variable string) {
	t.Helper()
	w.Do(t, "set", "env", "-n", "keda", agents, variable)
	w.Do(t, "rollout", "status", "-n", "keda", agents, "--timeout=90s")
}

// until waits until something is what is wanted.
func (w *way) until(t *testing.T, what string, within time.Duration, wanted string, look func() string) {
	t.Helper()
	seen := ""
	err := await.Until(t.Context(), what, within, func() bool {
		seen = look()
		return seen == wanted
	}, func() string { return seen })
	if err != nil {
		t.Fatal(err)
	}
}

// evidence are the commands of kubectl that show what there is.
func evidence() [][]string {
	return [][]string{
		{"get", "ingress,scaledobject,httpso,rollout", "-o", "yaml"},
		{"get", "pods,endpointslices,events"},
		{"logs", "-n", "keda", agents, "--all-pods", "--tail=60"},
		{"logs", "-n", "traefik", "deployment/traefik", "--tail=40"},
	}
}
