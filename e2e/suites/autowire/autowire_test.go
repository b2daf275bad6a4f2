package autowire

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
	// direct and proxied are the Services that the Ingress and the HTTPRoute name in turn.
	direct, proxied = "rollouts-demo-stable", "kedify-proxy"
	// soon bounds what the agent does at once, with the requests of kubectl around it.
	soon = 10 * time.Second
	// takeover bounds what the agent does when its leader was killed: another one waits for the end of the lease, 15 s.
	takeover = 30 * time.Second
	// start bounds the start of Pods, and cool what comes after the agent's cool-down.
	start, cool = 90 * time.Second, 90 * time.Second
	// rate is how many requests come in a second, through each front.
	rate = 100
	// gap bounds how many requests may fail when all proxies go away at once: those of a second. The Ingress controller
	// learns of it as soon as the agent does, and has nowhere to send them until it has seen the agent's write: 10 were lost,
	// and 59 on a machine with much other work.
	gap = rate
	// settled is how long the load goes on after each change.
	settled = 3 * time.Second
)

// front is where requests come in.
type front struct {
	name   string // of its address
	object string // that the agent wires
	// backend is where in the object the Service is named, as JSONPath.
	backend string
}

// fronts are an Ingress controller and a Gateway, each by an implementation of its own.
func fronts() []front {
	return []front{
		{"ingress", "ingress/rollouts-demo", "{.spec.rules[0].http.paths[0].backend.service.name}"},
		{"autowired", "httproute/rollouts-demo", "{.spec.rules[0].backendRefs[0].name}"},
	}
}

// both are the kinds of objects of the fronts, as a trigger names them.
const both = "ingress,httproute"

// TestBackendsFollowTheProxies has an Ingress and an HTTPRoute wired and unwired in each way there is. The requests come
// through the Ingress controller and the Gateway all the time.
func TestBackendsFollowTheProxies(t *testing.T) {
	cluster, repo := bed.Launch(t, provider.Wishes{
		Addons: []string{"keda", "traefik", "envoy-gateway"}, Forwards: map[string]string{
			"ingress":   "traefik.traefik.svc.cluster.local:80",
			"autowired": "autowired-gateway.envoy-gateway-system.svc.cluster.local:80",
		},
	})
	w := &way{Cluster: cluster, repo: repo}
	w.deploy(t)
	original := w.specs(t)
	step := func(name, backend string, within time.Duration, change func()) {
		t.Helper()
		w.step(t, name, backend, within, 0, change)
	}
	areOriginal := func() {
		t.Helper()
		if diff := cmp.Diff(original, w.specs(t)); diff != "" {
			t.Errorf("Ingress and HTTPRoute have their own backends back (-want +got):\n%s", diff)
		}
	}
	step("there are no proxies yet", direct, 0, func() {})
	step("proxies come", proxied, start, func() { w.do(t, "apply", "-k", filepath.Join(repo, "config", "kedify-proxy")) })
	w.waits(t)
	step("a canary at 20 %", proxied, 0, func() { w.canary(t) })
	step("the proxies are replaced", proxied, 0, func() { w.restart(t, namespace, "deployment/kedify-proxy") })
	step("the agents are killed", proxied, 0, func() {
		w.do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--grace-period=0", "--force")
		w.do(t, "rollout", "status", "-n", "keda", agents, "--timeout=60s")
	})
	step("a user says no", direct, takeover, func() { w.autowire(t, "false") })
	areOriginal()
	step("a user says yes", proxied, soon, func() { w.autowire(t, both) })
	step("the agent is about to be uninstalled", direct, start, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE=false") })
	areOriginal()
	step("the agent stays", proxied, start, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE-") })
	replicas := w.do(t, "get", "-n", "keda", agents, "-o", "jsonpath={.spec.replicas}")
	step("kubectl undoes it, without an agent", direct, soon, func() {
		w.scaleAgents(t, "0")
		w.undo(t)
	})
	areOriginal()
	step("there is an agent again", proxied, start, func() { w.scaleAgents(t, replicas) })
	w.step(t, "the proxies go away", direct, soon, gap, func() { w.do(t, "scale", "deployment/kedify-proxy", "--replicas=0") })
	step("the proxies are back", proxied, cool, func() {
		w.do(t, "scale", "deployment/kedify-proxy", "--replicas=2")
		w.do(t, "rollout", "status", "deployment/kedify-proxy", "--timeout=60s")
	})
}

// agents are the agent's replicas.
const agents = "deployment/kedify-http-agent"

// way is a cluster with the guide's objects in it.
type way struct {
	*provider.Cluster

	repo string
}

// do runs kubectl in the namespace, unless it names another one; it must succeed.
func (w *way) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.Run(t.Context(), w.kubectl(args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// kubectl is the command of kubectl. A later namespace takes the place of an earlier one.
func (w *way) kubectl(args ...string) []string {
	return append([]string{"kubectl", "--namespace", namespace}, args...)
}

// deploy applies the guide's objects and a Gateway with a route, without proxies, and waits until the app answers through both
// fronts. All of it goes with the test.
func (w *way) deploy(t *testing.T) {
	t.Helper()
	w.do(t, "create", "ns", namespace)
	t.Cleanup(func() {
		w.explain(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		_, err := w.Run(ctx, "kubectl", "delete", "ns", namespace, "--timeout=90s")
		_, also := w.Run(ctx, "kubectl", "delete", "gatewayclass", "autowired", "--ignore-not-found", "--timeout=20s")
		if err := errors.Join(err, also); err != nil {
			t.Error(err)
		}
	})
	w.do(t, "apply", "-f", filepath.Join(w.repo, "e2e", "suites", "autowire", "gateway.yaml"))
	w.do(t, "apply", "-f", bed.Fair(w.repo))
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
		w.do(t, "apply", "-f", file)
	}
	// At the load of this test the guide's target would ask for more Pods than a laptop has room for.
	w.trigger(t, "targetValue", "1000")
	w.autowire(t, both)
	w.do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy", "--timeout=90s")
	for _, front := range fronts() {
		w.until(t, "an answer through "+front.name, start, "blue", func() string {
			color, err := load.Probe(t.Context(), w.load(front))
			if err != nil {
				return err.Error()
			}
			return color
		})
	}
}

// load are the requests through a front, for the guide's host.
func (w *way) load(front front) load.Config {
	return load.Config{
		Address: w.Addresses[front.name], Host: host, Path: "/color", Rate: rate, Timeout: 5 * time.Second,
		MaxInFlight: 200, Colors: []string{"blue", "yellow"},
	}
}

// step makes a change under load, after which the fronts' objects have to name a Service within some time; as soon as the
// change is made where that is 0. So many requests may fail through each front.
func (w *way) step(t *testing.T, name, backend string, within time.Duration, lost int, change func()) {
	t.Helper()
	var clients []*load.Client
	for _, front := range fronts() {
		client, err := load.Start(t.Context(), w.load(front))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		clients = append(clients, client)
	}
	began := time.Now()
	change()
	took := make([]time.Duration, len(clients))
	for i, front := range fronts() {
		if within > 0 {
			w.until(t, name+": "+front.object, within, backend, func() string { return w.backend(t, front) })
		} else if is := w.backend(t, front); is != backend {
			t.Errorf("%s: %s names Service %s, want %s", name, front.object, is, backend)
		}
		took[i] = time.Since(began)
	}
	<-time.After(settled)
	for i, front := range fronts() {
		totals, _ := clients[i].Stop()
		t.Logf("%-38s %-24s %-20s after %5.1f s, %d of %d requests failed %v",
			name, front.object, backend, took[i].Seconds(), totals.Failed, totals.Ended, totals.Reasons)
		if totals.Failed > lost {
			t.Errorf("%s: %d of %d requests through %s failed, at most %d may", name, totals.Failed, totals.Ended, front.name, lost)
		}
	}
}

// backend is the Service that a front's object names.
func (w *way) backend(t *testing.T, front front) string {
	t.Helper()
	return w.do(t, "get", front.object, "-o", "jsonpath="+front.backend)
}

// specs are what is written in the fronts' objects.
func (w *way) specs(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, front := range fronts() {
		found = append(found, w.do(t, "get", front.object, "-o", "jsonpath={.spec}"))
	}
	return found
}

// undo runs the commands of docs/autowire.md by which backends are restored without the agent.
func (w *way) undo(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(w.repo, "docs", "autowire.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh undo\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/autowire.md has no block: sh undo")
	}
	script := strings.NewReplacer("kubectl", "kubectl --namespace "+namespace, " shop ", " rollouts-demo ").Replace(string(block[1]))
	if out, err := w.Run(t.Context(), "bash", "-euo", "pipefail", "-c", script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// scaleAgents has so many agents, and waits for that.
func (w *way) scaleAgents(t *testing.T, replicas string) {
	t.Helper()
	w.do(t, "scale", "-n", "keda", agents, "--replicas="+replicas)
	w.do(t, "rollout", "status", "-n", "keda", agents, "--timeout=60s")
	if replicas == "0" {
		w.do(t, "wait", "-n", "keda", "pod", "-l", "app.kubernetes.io/component=agent", "--for=delete", "--timeout=60s")
	}
}

// waits are the two waits of the public sample.
func (w *way) waits(t *testing.T) {
	t.Helper()
	w.do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.status.loadBalancer.ingress}", "--timeout=60s")
	w.do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy", "--timeout=60s")
}

// canary sets another image, and measures its share at the first pause, through each front.
func (w *way) canary(t *testing.T) {
	t.Helper()
	w.do(t, "patch", "rollout/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]`)
	w.do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused", "--timeout=90s")
	for _, front := range fronts() {
		w.judge(t, front)
	}
}

// judge measures the share of the new version through a front.
func (w *way) judge(t *testing.T, front front) {
	t.Helper()
	client, err := load.Start(t.Context(), w.load(front))
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
	t.Logf("20 %% asked: %d of %d requests through %s got the new version", found.Hits, found.Total, front.name)
}

// autowire says which objects are to be wired for the trigger.
func (w *way) autowire(t *testing.T, value string) {
	t.Helper()
	w.trigger(t, "trafficAutowire", value)
}

// trigger changes a value of the trigger.
func (w *way) trigger(t *testing.T, key, value string) {
	t.Helper()
	w.do(t, "patch", "scaledobject/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/`+key+`","value":"`+value+`"}]`)
}

// restart replaces the Pods of a workload.
func (w *way) restart(t *testing.T, in, workload string) {
	t.Helper()
	w.do(t, "rollout", "restart", "-n", in, workload)
	w.do(t, "rollout", "status", "-n", in, workload, "--timeout=90s")
}

// setAgents sets a variable of the agents, which are replaced by that.
func (w *way) setAgents(t *testing.T, variable string) {
	t.Helper()
	w.do(t, "set", "env", "-n", "keda", agents, variable)
	w.do(t, "rollout", "status", "-n", "keda", agents, "--timeout=90s")
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

// explain shows what there is when the test has failed.
func (w *way) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "ingress,httproute,gateway,scaledobject,httpso,rollout", "-o", "yaml"},
		{"get", "pods,endpointslices,events"},
		{"logs", "-n", "keda", agents, "--all-pods", "--tail=60"},
		{"logs", "-n", "traefik", "deployment/traefik", "--tail=40"},
		{"logs", "-n", "envoy-gateway-system", "deployment/envoy-gateway", "--tail=40"},
	} {
		out, err := w.Run(ctx, w.kubectl(args...)...)
		t.Logf("kubectl %s (%v)\n%s", strings.Join(args, " "), err, out)
	}
}
