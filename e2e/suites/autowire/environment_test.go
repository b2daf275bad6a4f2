package autowire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// agents is the Deployment of the agent.
const agents = "deployment/kedify-http-agent"

// environment is a cluster with the guide's objects.
type environment struct {
	testbed.Kubectl

	repo   string
	rate   int // requests per second and front
	stalls *stall.Detector
}

// controller is an Ingress controller, or the ingress gateway of Istio.
type controller struct {
	addon, target string
	// kind is the kind of the object that the agent wires, in the syntax of a trigger. backend is the JSONPath of the
	// Service in it.
	kind, backend string
	// manifest is the file with the object, empty for the Ingress of the guide.
	manifest string
	// hasStandby is true if the controller requires an additional object of docs/how-to/autowire.md next to an Ingress, so
	// that a change of backends loses no request.
	hasStandby bool
}

// kindIngress is the kind of the guide's object.
const kindIngress = "ingress"

// chosen returns the controller that AUTOWIRE_INGRESS selects, and false if there is none of that name.
func chosen() (by controller, isKnown bool) {
	const ofIngress = "{.spec.rules[0].http.paths[0].backend.service.name}"
	controllers := map[string]controller{
		"traefik": {addon: "traefik", target: provider.IngressTarget, kind: kindIngress, backend: ofIngress},
		"contour": {
			addon: "contour", target: "envoy.projectcontour.svc.cluster.local:80", kind: kindIngress, backend: ofIngress,
			hasStandby: true,
		},
		"istio": {
			addon: "istio", target: "ingress-istio." + namespace + ".svc.cluster.local:80", kind: "virtualservice",
			backend: "{.spec.http[0].route[0].destination.host}", manifest: "istio.yaml",
		},
	}
	by, isKnown = controllers[cmp.Or(os.Getenv("AUTOWIRE_INGRESS"), "traefik")]
	return by, isKnown
}

// ingress returns the controller that AUTOWIRE_INGRESS selects.
func ingress(t *testing.T) controller {
	t.Helper()
	by, isKnown := chosen()
	if !isKnown {
		t.Fatalf("INGRESS=%s: there are traefik, contour and istio", os.Getenv("AUTOWIRE_INGRESS"))
	}
	return by
}

// launch starts a cluster with the guide's objects and a Gateway with a route, without the ScaledObject. It waits until
// the app responds through both fronts.
func launch(t *testing.T) *environment {
	t.Helper()
	by := ingress(t)
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons: []string{"keda", by.addon, "envoy-gateway"}, Forwards: map[string]string{
			provider.IngressAddress: by.target,
			"autowired":             "autowired-gateway.envoy-gateway-system.svc.cluster.local:80",
		},
	})
	w := &environment{
		Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: namespace}, repo: repo,
		rate: rate(t), stalls: stall.Watch(t),
	}
	t.Cleanup(func() {
		// The GatewayClass remains as long as its Gateway, which is deleted with its namespace after the proxies have
		// drained.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := w.Run(ctx, "kubectl", "delete", "gatewayclass", "autowired", "--ignore-not-found",
			testbed.WaitTimeout()); err != nil {
			t.Error(err)
		}
	})
	w.CreateNamespace(t, namespace)
	w.ExplainFailure(t, evidence()...)
	w.Do(t, "apply", "-f", filepath.Join(repo, "e2e", "suites", "autowire", "gateway.yaml"))
	w.Do(t, "apply", "-f", testbed.LimitRangeFile(repo))
	w.Do(t, "apply", "-f", testbed.Example(t, repo, host, "manifests.yaml")[0])
	if by.manifest != "" {
		w.Do(t, "apply", "-f", filepath.Join(repo, "e2e", "suites", "autowire", by.manifest))
	}
	if by.hasStandby && os.Getenv("AUTOWIRE_STANDBY") != "false" {
		w.standby(t)
	}
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	for _, front := range fronts() {
		w.until(t, "an answer through "+front.name, "blue", func() string {
			color, err := load.Probe(t.Context(), w.load(front))
			if err != nil {
				return err.Error()
			}
			return color
		})
	}
	return w
}

// rate returns the number of requests per second through each front.
func rate(t *testing.T) int {
	t.Helper()
	text := os.Getenv("AUTOWIRE_RATE")
	if text == "" {
		return usualRate
	}
	asked, err := strconv.Atoi(text)
	if err != nil || asked < 1 {
		t.Fatalf("AUTOWIRE_RATE is %q, want a number of requests a second", text)
	}
	return asked
}

// applyScaledObject applies the guide's ScaledObject for both kinds of fronts. changes are further replacements: pairs
// of old and new text.
func (w *environment) applyScaledObject(t *testing.T, changes ...string) {
	t.Helper()
	file := testbed.Example(t, w.repo, host, "scaledobject.yaml")[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.NewReplacer(append(changes,
		// At the load of this test, the guide's target requires more Pods than fit on a laptop.
		`targetValue: "5"`, `targetValue: "1000"`, "trafficAutowire: ingress", "trafficAutowire: "+allKinds(),
	)...).Replace(string(text))
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "apply", "-f", file)
}

// checkOriginal checks that the fronts' objects are unchanged.
func (w *environment) checkOriginal(t *testing.T, original []string) {
	t.Helper()
	if diff := gocmp.Diff(original, w.specs(t)); diff != "" {
		t.Errorf("the fronts' objects have their own backends back (-want +got):\n%s", diff)
	}
}

// load returns the configuration of the requests through a front, for the guide's host. All requests of one timeout fit
// in flight: otherwise this client would fail first during a stall.
func (w *environment) load(front front) load.Config {
	return load.Config{
		Address: w.Addresses[front.name], Host: host, Path: "/color", Rate: float64(w.rate), Timeout: await.Patience(),
		MaxInFlight: w.rate * int(await.Patience().Seconds()), Colors: []string{"blue", "yellow"},
	}
}

// step makes a change under load. Afterwards the fronts' objects have to point at a Service: eventually, or immediately
// after the change. No request may fail if gap is 0. Otherwise requests may fail from the change until gap after the
// objects point at the Service. It returns whether the result is void, because requests failed at another time and the
// machine stalled.
func (w *environment) step(t *testing.T, name, backend string, delayed bool, gap time.Duration,
	change func(),
) (isVoid bool) {
	t.Helper()
	return w.stepTo(t, name, []string{backend, backend}, delayed, gap, change)
}

// stepTo is a step with a separate Service for each front's object.
func (w *environment) stepTo(t *testing.T, name string, backends []string, delayed bool, gap time.Duration,
	change func(),
) (isVoid bool) {
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
	durations := make([]time.Duration, len(clients))
	for i, front := range fronts() {
		backend := backends[i]
		if delayed {
			w.Do(t, "wait", front.object, "--for=jsonpath="+front.backend+"="+backend)
		} else if service := w.Do(t, "get", front.object, "-o", "jsonpath="+front.backend); service != backend {
			t.Errorf("%s: %s names Service %s, want %s", name, front.object, service, backend)
		}
		durations[i] = time.Since(began)
	}
	//testbounds:allow requests go on for a while after the change
	<-time.After(loadAfterChange)
	for i, front := range fronts() {
		totals, _ := clients[i].Stop()
		results := clients[i].Results()
		until := began
		if gap > 0 {
			until = began.Add(durations[i] + gap)
		}
		unexcused, still := countOutside(results, began, until), w.stalls.Largest(began, until)
		t.Logf("%-38s %-24s %-20s after %5.1f s, %d of %d requests failed, %d of them out of time, %s, usually within %s, "+
			"%v; %s; the machine stalled for %s",
			name, front.object, backends[i], durations[i].Seconds(), totals.Failed, totals.Ended, unexcused,
			w.outage(results, began), gap,
			totals.Reasons, slowest(results), still)
		if totals.Failed > 0 {
			t.Logf("%s: failed requests: %s", name, describeFailures(results, began))
		}
		switch {
		case unexcused > 0 && gap > 0 && still > stall.Limit:
			t.Logf("%s: void", name)
			isVoid = true
		case unexcused > 0:
			invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d through %s out of time: %v", name, unexcused,
				totals.Ended, front.name, totals.Reasons)
		}
	}
	return isVoid
}

// countOutside counts the failed requests that were not due within an interval.
func countOutside(results []load.Result, from, until time.Time) int {
	count := 0
	for _, result := range results {
		if result.Err != nil && (result.Due.Before(from) || !result.Due.Before(until)) {
			count++
		}
	}
	return count
}

// slowest returns the maximum delays of a request's start and of its response. They show stalls of this client or of
// the machine.
func slowest(results []load.Result) string {
	var lag, latency time.Duration
	for _, result := range results {
		lag, latency = max(lag, result.Lag), max(latency, result.Latency)
	}
	return fmt.Sprintf("sent %.2f s late at worst, and over after %.2f s", lag.Seconds(), latency.Seconds())
}

// specs returns the specs of the fronts' objects.
func (w *environment) specs(t *testing.T) []string {
	t.Helper()
	var specs []string
	for _, front := range fronts() {
		specs = append(specs, w.Do(t, "get", front.object, "-o", "jsonpath={.spec}"))
	}
	return specs
}

// rollBack runs the commands of docs/how-to/autowire.md that restore the backends of the fronts without the agent.
func (w *environment) rollBack(t *testing.T) {
	t.Helper()
	var commands strings.Builder
	for line := range strings.Lines(w.recipe(t, "sh undo")) {
		isOfFront := func(front front) bool {
			kind, _, _ := strings.Cut(front.object, "/")
			return strings.Contains(line, " "+kind+" ")
		}
		if slices.ContainsFunc(fronts(), isOfFront) {
			commands.WriteString(line)
		}
	}
	if lines := strings.Count(commands.String(), "\n"); lines != len(fronts()) {
		t.Fatalf("docs/how-to/autowire.md has %d commands for %d objects:\n%s", lines, len(fronts()), &commands)
	}
	w.runCommands(t, commands.String())
}

// runCommands runs commands of docs/how-to/autowire.md, for the guide's objects.
func (w *environment) runCommands(t *testing.T, commands string) {
	t.Helper()
	script := strings.NewReplacer("kubectl", "kubectl --namespace "+namespace, " shop ",
		" rollouts-demo ").Replace(commands)
	if out, err := w.Run(t.Context(), "bash", "-euo", "pipefail", "-c", script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// recipe returns a block of docs/how-to/autowire.md or autowire-retries.md by the info string of its fence.
func (w *environment) recipe(t *testing.T, name string) string {
	t.Helper()
	for _, file := range []string{"autowire.md", "autowire-retries.md"} {
		page, err := os.ReadFile(filepath.Join(w.repo, "docs", "how-to", file))
		if err != nil {
			t.Fatal(err)
		}
		if block := regexp.MustCompile("(?s)```" + name + "\n(.*?)```").FindSubmatch(page); block != nil {
			return string(block[1])
		}
	}
	t.Fatalf("docs/how-to/autowire.md and autowire-retries.md have no block: %s", name)
	return ""
}

// standby applies the object that Contour requires next to the Ingress.
func (w *environment) standby(t *testing.T) {
	t.Helper()
	w.apply(t, strings.ReplaceAll(w.recipe(t, "yaml contour"), "{name: shop, port: 80}", "{name: "+direct+", port: 80}"))
}

// apply applies an object of a page, adapted to the guide's objects.
func (w *environment) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "apply", "-f", file)
}

// scaleAgents sets the number of agents and waits for it.
func (w *environment) scaleAgents(t *testing.T, replicas string) {
	t.Helper()
	w.Do(t, "scale", "-n", "keda", agents, "--replicas="+replicas)
	w.Do(t, "rollout", "status", "-n", "keda", agents)
	if replicas == "0" {
		w.Do(t, "wait", "-n", "keda", "pod", "-l", "app.kubernetes.io/component=agent", "--for=delete")
	}
}

// checkQueue runs the two wait commands of the public sample, if its Ingress is wired.
func (w *environment) checkQueue(t *testing.T) {
	t.Helper()
	if ingress(t).kind != kindIngress {
		return
	}
	w.Do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.status.loadBalancer.ingress}")
	w.Do(t, "wait", "ingress/rollouts-demo",
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
}

// canary sets another image and measures its share at the first pause, through each front.
func (w *environment) canary(t *testing.T) {
	t.Helper()
	w.setImage(t)
	for _, front := range fronts() {
		w.checkSplit(t, front.name, w.load(front))
	}
}

// setImage sets another image, and waits for the canary's first pause.
func (w *environment) setImage(t *testing.T) {
	t.Helper()
	w.Do(t, "patch", "rollout/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]`)
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused")
}

// promote promotes the canary, and checks that it receives all requests through each front.
func (w *environment) promote(t *testing.T) {
	t.Helper()
	w.Argo(t, "promote", "rollouts-demo")
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	for _, front := range fronts() {
		w.until(t, "an answer of the new version through "+front.name, "yellow", func() string {
			color, err := load.Probe(t.Context(), w.load(front))
			if err != nil {
				return err.Error()
			}
			return color
		})
	}
}

// checkSplit measures the share of the new version through an entry point, on new connections.
func (w *environment) checkSplit(t *testing.T, through string, target load.Config) {
	t.Helper()
	client, err := load.Start(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	result, err := assert.Expectation{
		Color: "yellow", Share: 0.2, From: time.Now(), First: 1000, Second: 2000, Rule: stats.DefaultRule(), Stalls: w.stalls,
	}.Check(t.Context(), client.Sample)
	if errors.Is(err, assert.ErrSplit) {
		invariant.Broken(t, invariant.Split, "%s: %v", through, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("desired 20 %%: %d of %d requests through %s got the new version", result.Hits, result.Total, through)
}

// autowire sets the kinds of objects that the trigger wires.
func (w *environment) autowire(t *testing.T, value string) {
	t.Helper()
	w.trigger(t, "trafficAutowire", value)
}

// trigger sets a value of the trigger.
func (w *environment) trigger(t *testing.T, key, value string) {
	t.Helper()
	w.Do(t, "patch", "scaledobject/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/`+key+`","value":"`+value+`"}]`)
}

// restart replaces the Pods of a workload.
func (w *environment) restart(t *testing.T, in, workload string) {
	t.Helper()
	w.Do(t, "rollout", "restart", "-n", in, workload)
	w.Do(t, "rollout", "status", "-n", in, workload)
}

// setAgents sets an environment variable of the agents, which replaces their Pods.
func (w *environment) setAgents(t *testing.T, variable string) {
	t.Helper()
	w.Do(t, "set", "env", "-n", "keda", agents, variable)
	w.Do(t, "rollout", "status", "-n", "keda", agents)
}

// until waits until a value is the wanted one.
func (*environment) until(t *testing.T, what, wanted string, look func() string) {
	t.Helper()
	seen := ""
	await.Described(t, what, func() bool {
		seen = look()
		return seen == wanted
	}, func() string { return seen })
}

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	return [][]string{
		{"get", "ingress,httproute,gateway,scaledobject,httpso,rollout", "-o", "yaml"},
		{"get", "virtualservice,destinationrule,gateways.networking.istio.io", "-o", "yaml"},
		{"get", "pods,endpointslices,events"},
		{"logs", "-n", "istio-system", "deployment/istiod", "--tail=40", "--ignore-errors"},
		{"logs", "-n", "keda", agents, "--all-pods", "--tail=60"},
		{"logs", "-n", "traefik", "deployment/traefik", "--tail=40", "--ignore-errors"},
		{"logs", "-n", "projectcontour", "deployment/contour", "--tail=40", "--ignore-errors"},
		{"logs", "-n", "envoy-gateway-system", "deployment/envoy-gateway", "--tail=40"},
	}
}
