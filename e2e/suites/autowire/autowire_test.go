package autowire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

const (
	// namespace is that of the guide's objects and of their proxies.
	namespace = "autowired"
	// host takes the place of the guide's.
	host = "autowired.example.com"
	// direct and proxied are the Services that the Ingress and the HTTPRoute name in turn.
	direct, proxied = "rollouts-demo-stable", "kedify-proxy"
	// immediately and inTime say when the fronts' objects name another Service: when a change has been made, or some time
	// later.
	immediately, eventually = false, true
	// usualRate is how many requests come in a second, through each front, where AUTOWIRE_RATE asks for no other number.
	usualRate = 100
	// gap is how long requests may fail after the backends were restored when all proxies go away at once. The Ingress
	// controller learns of it as soon as the agent does, and has nowhere to send them until it has seen the agent's write:
	// 5 to 26 of 100 a second were lost, and 59 on a machine with much other work.
	gap = time.Second
	// maxVoid is the number of times that a part may be void because the machine stood still.
	maxVoid = 5
	// loadAfterChange is how long the load goes on after each change.
	loadAfterChange = 3 * time.Second
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
		{provider.IngressAddress, "ingress/rollouts-demo", "{.spec.rules[0].http.paths[0].backend.service.name}"},
		{"autowired", "httproute/rollouts-demo", "{.spec.rules[0].backendRefs[0].name}"},
	}
}

// both are the kinds of objects of the fronts, as a trigger names them.
const both = "ingress,httproute"

// TestAutowire has an Ingress and an HTTPRoute wired and unwired in each way there is. The requests come through the
// Ingress controller and the Gateway all the time. One cluster and one app serve all steps, each of which begins where
// the one before has left them.
func TestAutowire(t *testing.T) {
	w := launch(t)
	original := w.specs(t)
	w.checkWiring(t, original)
	w.uninstall(t, original)
	w.loseProxies(t)
}

// checkWiring has backends follow the proxies, and what the user says of them.
func (w *environment) checkWiring(t *testing.T, original []string) {
	t.Helper()
	w.step(t, "there is no ScaledObject yet", direct, immediately, 0, func() {})
	w.step(t, "a ScaledObject comes, and proxies", proxied, eventually, 0, func() { w.applyScaledObject(t) })
	w.checkQueue(t)
	w.step(t, "a canary at 20 %", proxied, immediately, 0, func() { w.canary(t) })
	w.step(t, "the proxies are replaced", proxied, immediately, 0,
		func() { w.restart(t, namespace, "deployment/kedify-proxy") })
	w.step(t, "the agents are killed", proxied, immediately, 0, func() {
		w.Do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--grace-period=0", "--force")
		w.Do(t, "rollout", "status", "-n", "keda", agents)
	})
	w.step(t, "a user says no", direct, eventually, 0, func() { w.autowire(t, "false") })
	w.checkOriginal(t, original)
	w.step(t, "a user says yes", proxied, eventually, 0, func() { w.autowire(t, both) })
}

// uninstall has the agent restore what it has wired before it goes, and a user do so when it is gone.
func (w *environment) uninstall(t *testing.T, original []string) {
	t.Helper()
	w.step(t, "the agent is about to be uninstalled", direct, eventually, 0,
		func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE=false") })
	w.checkOriginal(t, original)
	w.step(t, "the agent stays", proxied, eventually, 0, func() { w.setAgents(t, "KEDIFY_AGENT_AUTOWIRE-") })
	replicas := w.Do(t, "get", "-n", "keda", agents, "-o", "jsonpath={.spec.replicas}")
	w.step(t, "kubectl undoes it, without an agent", direct, eventually, 0, func() {
		w.scaleAgents(t, "0")
		w.rollBack(t)
	})
	w.checkOriginal(t, original)
	w.step(t, "there is an agent again", proxied, eventually, 0, func() { w.scaleAgents(t, replicas) })
}

// loseProxies has all proxies go at once, and come back.
func (w *environment) loseProxies(t *testing.T) {
	t.Helper()
	w.repeatVoid(t, func() (isVoid bool) {
		isVoid = w.step(t, "the proxies go away", direct, eventually, gap,
			func() { w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=0") })
		w.step(t, "the proxies are back", proxied, eventually, 0, func() {
			w.Do(t, "scale", "deployment/kedify-proxy", "--replicas=2")
			w.Do(t, "rollout", "status", "deployment/kedify-proxy")
		})
		return isVoid
	})
}

// repeatVoid repeats a part that is void.
func (*environment) repeatVoid(t *testing.T, part func() (isVoid bool)) {
	t.Helper()
	for range maxVoid {
		if !part() {
			return
		}
	}
	t.Logf("no verdict: the machine stood still in each of %d rounds", maxVoid)
}

// agents are the agent's replicas.
const agents = "deployment/kedify-http-agent"

// environment is a cluster with the guide's objects in it.
type environment struct {
	testbed.Kubectl

	repo   string
	rate   int // of requests, a second and front
	stalls *stall.Detector
}

// controller is an Ingress controller.
type controller struct {
	addon, target string
	// hasStandby says that docs/how-to/autowire.md has an object that it needs beside an Ingress, for a change of backends
	// to lose nothing.
	hasStandby bool
}

// ingress is the Ingress controller that the environment asks for.
func ingress(t *testing.T) controller {
	t.Helper()
	controllers := map[string]controller{
		"traefik": {addon: "traefik", target: provider.IngressTarget},
		"contour": {addon: "contour", target: "envoy.projectcontour.svc.cluster.local:80", hasStandby: true},
	}
	chosen, ok := controllers[cmp.Or(os.Getenv("AUTOWIRE_INGRESS"), "traefik")]
	if !ok {
		t.Fatalf("INGRESS=%s: there are traefik and contour", os.Getenv("AUTOWIRE_INGRESS"))
	}
	return chosen
}

// launch brings a cluster up with the guide's objects and a Gateway with a route in it, without the ScaledObject, and
// waits until the app answers through both fronts.
func launch(t *testing.T) *environment {
	t.Helper()
	by := ingress(t)
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons: []string{"keda", by.addon, "envoy-gateway"}, Forwards: map[string]string{
			provider.IngressAddress: by.target,
			"autowired":             "autowired-gateway.envoy-gateway-system.svc.cluster.local:80",
		},
	})
	w := &environment{Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: namespace}, repo: repo,
		rate: rate(t), stalls: stall.Watch(t)}
	t.Cleanup(func() {
		// The class stays for as long as its Gateway does, whose namespace is gone when the proxies in it have drained.
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

// rate is how many requests come in a second, through each front.
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

// applyScaledObject applies the guide's ScaledObject, for both kinds of fronts. Further changes are texts, each
// followed by what comes in its place.
func (w *environment) applyScaledObject(t *testing.T, changes ...string) {
	t.Helper()
	file := testbed.Example(t, w.repo, host, "scaledobject.yaml")[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.NewReplacer(append(changes,
		// At the load of this test the guide's target would ask for more Pods than a laptop has room for.
		`targetValue: "5"`, `targetValue: "1000"`, "trafficAutowire: ingress", "trafficAutowire: "+both,
	)...).Replace(string(text))
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "apply", "-f", file)
}

// checkOriginal sees that the fronts' objects are what they were.
func (w *environment) checkOriginal(t *testing.T, original []string) {
	t.Helper()
	if diff := gocmp.Diff(original, w.specs(t)); diff != "" {
		t.Errorf("Ingress and HTTPRoute have their own backends back (-want +got):\n%s", diff)
	}
}

// load are the requests through a front, for the guide's host. As many may be under way as come in the time that one
// may take: else this client would be the first to fail where everything stands still for a while.
func (w *environment) load(front front) load.Config {
	return load.Config{
		Address: w.Addresses[front.name], Host: host, Path: "/color", Rate: float64(w.rate), Timeout: await.Patience(),
		MaxInFlight: w.rate * int(await.Patience().Seconds()), Colors: []string{"blue", "yellow"},
	}
}

// step makes a change under load, after which the fronts' objects have to name a Service, in time or as soon as the
// change is made. No request may fail if gap is 0. Otherwise requests may fail from the change on until gap after the
// objects name the Service. It returns whether the verdict is void, because requests failed at another time and the
// machine stood still.
func (w *environment) step(t *testing.T, name, backend string, inTime bool, gap time.Duration,
	change func()) (isVoid bool) {
	t.Helper()
	return w.stepTo(t, name, []string{backend, backend}, inTime, gap, change)
}

// stepTo is a step after which each front's object names a Service of its own.
func (w *environment) stepTo(t *testing.T, name string, backends []string, inTime bool, gap time.Duration,
	change func()) (isVoid bool) {
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
		backend := backends[i]
		if inTime {
			w.Do(t, "wait", front.object, "--for=jsonpath="+front.backend+"="+backend)
		} else if is := w.Do(t, "get", front.object, "-o", "jsonpath="+front.backend); is != backend {
			t.Errorf("%s: %s names Service %s, want %s", name, front.object, is, backend)
		}
		took[i] = time.Since(began)
	}
	//testbounds:allow requests go on for a while after the change
	<-time.After(loadAfterChange)
	for i, front := range fronts() {
		totals, _ := clients[i].Stop()
		results := clients[i].Results()
		until := began
		if gap > 0 {
			until = began.Add(took[i] + gap)
		}
		unexcused, still := countOutside(results, began, until), w.stalls.Largest(began, until)
		t.Logf("%-38s %-24s %-20s after %5.1f s, %d of %d requests failed, %d of them out of time, %s, usually within %s, "+
			"%v; %s; the machine stood still for %s",
			name, front.object, backends[i], took[i].Seconds(), totals.Failed, totals.Ended, unexcused,
			w.outage(results, began), gap,
			totals.Reasons, slowest(results), still)
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

// countOutside counts the requests that failed and were not due from one moment to another.
func countOutside(results []load.Result, from, until time.Time) int {
	count := 0
	for _, result := range results {
		if result.Err != nil && (result.Due.Before(from) || !result.Due.Before(until)) {
			count++
		}
	}
	return count
}

// slowest says how late a request was sent, and answered, at worst: what it takes where this client, or all of the
// machine, stood still.
func slowest(results []load.Result) string {
	var lag, latency time.Duration
	for _, result := range results {
		lag, latency = max(lag, result.Lag), max(latency, result.Latency)
	}
	return fmt.Sprintf("sent %.2f s late at worst, and over after %.2f s", lag.Seconds(), latency.Seconds())
}

// specs are what is written in the fronts' objects.
func (w *environment) specs(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, front := range fronts() {
		found = append(found, w.Do(t, "get", front.object, "-o", "jsonpath={.spec}"))
	}
	return found
}

// rollBack runs the commands of docs/how-to/autowire.md by which backends are restored without the agent.
func (w *environment) rollBack(t *testing.T) {
	t.Helper()
	w.runCommands(t, w.recipe(t, "sh undo"))
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

// recipe is a block of docs/how-to/autowire.md or autowire-retries.md, by the words behind its fence.
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

// standby applies what Contour needs beside the Ingress.
func (w *environment) standby(t *testing.T) {
	t.Helper()
	w.apply(t, strings.ReplaceAll(w.recipe(t, "yaml contour"), "{name: shop, port: 80}", "{name: "+direct+", port: 80}"))
}

// apply applies an object of a page, in the guide's words.
func (w *environment) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Do(t, "apply", "-f", file)
}

// scaleAgents has so many agents, and waits for that.
func (w *environment) scaleAgents(t *testing.T, replicas string) {
	t.Helper()
	w.Do(t, "scale", "-n", "keda", agents, "--replicas="+replicas)
	w.Do(t, "rollout", "status", "-n", "keda", agents)
	if replicas == "0" {
		w.Do(t, "wait", "-n", "keda", "pod", "-l", "app.kubernetes.io/component=agent", "--for=delete")
	}
}

// checkQueue are the two waits of the public sample.
func (w *environment) checkQueue(t *testing.T) {
	t.Helper()
	w.Do(t, "wait", "ingress/rollouts-demo", "--for=jsonpath={.status.loadBalancer.ingress}")
	w.Do(t, "wait", "ingress/rollouts-demo",
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
}

// canary sets another image, and measures its share at the first pause, through each front.
func (w *environment) canary(t *testing.T) {
	t.Helper()
	w.Do(t, "patch", "rollout/rollouts-demo", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]`)
	w.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused")
	for _, front := range fronts() {
		w.checkSplit(t, front)
	}
}

// checkSplit measures the share of the new version through a front.
func (w *environment) checkSplit(t *testing.T, front front) {
	t.Helper()
	client, err := load.Start(t.Context(), w.load(front))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	found, err := assert.Expectation{
		Color: "yellow", Share: 0.2, From: time.Now(), First: 1000, Second: 2000, Rule: stats.DefaultRule(), Stalls: w.stalls,
	}.Check(t.Context(), client.Sample)
	if errors.Is(err, assert.ErrSplit) {
		invariant.Broken(t, invariant.Split, "%s: %v", front.name, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("20 %% asked: %d of %d requests through %s got the new version", found.Hits, found.Total, front.name)
}

// autowire says which objects are to be wired for the trigger.
func (w *environment) autowire(t *testing.T, value string) {
	t.Helper()
	w.trigger(t, "trafficAutowire", value)
}

// trigger changes a value of the trigger.
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

// setAgents sets a variable of the agents, which are replaced by that.
func (w *environment) setAgents(t *testing.T, variable string) {
	t.Helper()
	w.Do(t, "set", "env", "-n", "keda", agents, variable)
	w.Do(t, "rollout", "status", "-n", "keda", agents)
}

// until waits until something is what is wanted.
func (*environment) until(t *testing.T, what, wanted string, look func() string) {
	t.Helper()
	seen := ""
	await.Described(t, what, func() bool {
		seen = look()
		return seen == wanted
	}, func() string { return seen })
}

// evidence is what is looked at when the test has failed.
func evidence() [][]string {
	return [][]string{
		{"get", "ingress,httproute,gateway,scaledobject,httpso,rollout", "-o", "yaml"},
		{"get", "pods,endpointslices,events"},
		{"logs", "-n", "keda", agents, "--all-pods", "--tail=60"},
		{"logs", "-n", "traefik", "deployment/traefik", "--tail=40", "--ignore-errors"},
		{"logs", "-n", "projectcontour", "deployment/contour", "--tail=40", "--ignore-errors"},
		{"logs", "-n", "envoy-gateway-system", "deployment/envoy-gateway", "--tail=40"},
	}
}
