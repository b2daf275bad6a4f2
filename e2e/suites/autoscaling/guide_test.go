package autoscaling

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// namespace is the namespace of the guide's objects, separate from that of other suites.
	namespace = "autoscaled"
	// proxies is the name of this machine's address that forwards to the proxies.
	proxies = "autoscaled"
	// target is the guide's targetValue in requests per second for each replica. least and most are its bounds of the
	// number of replicas.
	target, least, most = 5, 2, 10
	// rest is how long a number must stay: more than two syncs of the HorizontalPodAutoscaler.
	rest = 35 * time.Second
	// installed is the number of answers in a row after which every worker of a proxy has the endpoints of a target.
	installed = 20
)

// The test applies the guide's objects, unchanged, to a stock KEDA. The agent creates the HTTPScaledObject, Envoy
// counts the requests, and the Rollout gets the matching number of replicas, during a canary too.
func TestTheGuidesScaledObject(t *testing.T) {
	g, repo := launch(t)

	g.underLoad(t, 8, func() { g.checkStaysWanted(t, 8, "8 requests a second") })
	g.underLoad(t, 25, func() { g.awaitWanted(t, 25) })
	g.underLoad(t, 45, func() {
		g.awaitWanted(t, 45)
		g.argo(t, "set", "image", testbed.App, testbed.App+"=argoproj/rollouts-demo:yellow")
		g.Do(t, "wait", "-n", namespace, "rollout/"+testbed.App, "--for=jsonpath={.status.phase}=Paused")
		g.checkStaysWanted(t, 45, "a canary at 20 %: both sides are counted")
		g.argo(t, "abort", testbed.App)
	})
	g.abortByAnalysis(t, repo)
	g.removeScaleInDelay(t)
	g.underLoad(t, 8, func() { g.awaitWanted(t, 8) })
}

// guide is a cluster with the guide's objects.
type guide struct{ testbed.Kubectl }

// launch starts a cluster with a stock KEDA, and applies the guide's objects.
func launch(t *testing.T) (g guide, repo string) {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons:   []string{testbed.KEDAAddon()},
		Forwards: map[string]string{proxies: "kedify-proxy." + namespace + ".svc.cluster.local:8080"},
	})
	g = guide{testbed.Kubectl{Cluster: cluster}}
	g.CheckKEDAVersion(t)
	g.deploy(t, repo)
	return g, repo
}

// removeScaleInDelay removes the default stabilization window of five minutes, in which the highest number of replicas
// counts.
func (g guide) removeScaleInDelay(t *testing.T) {
	t.Helper()
	g.Do(t, "patch", "-n", namespace, "scaledobject/"+testbed.App, "--type=merge", "-p",
		`{"spec":{"advanced":{"horizontalPodAutoscalerConfig":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}}}`)
}

// deploy applies the guide's objects and waits until the ScaledObject is ready. They are deleted with the test.
func (g guide) deploy(t *testing.T, repo string) {
	t.Helper()
	g.CreateNamespace(t, namespace)
	g.ExplainFailure(t, evidence()...)
	example := filepath.Join(repo, "examples", "argo-rollouts-canary")
	g.Do(t, "apply", "-n", namespace, "-f", testbed.LimitRangeFile(repo))
	g.Do(t, "apply", "-n", namespace, "-k", filepath.Join(repo, "config", "kedify-proxy"))
	g.Do(t, "apply", "-n", namespace, "-f", filepath.Join(example, "manifests.yaml"), "-f",
		filepath.Join(example, "scaledobject.yaml"))
	began := time.Now()
	g.Do(t, "wait", "-n", namespace, "scaledobject/"+testbed.App, "--for=condition=Ready")
	g.Do(t, "wait", "-n", namespace, "httpscaledobject/"+testbed.App, "--for=condition=Programmed")
	t.Logf("after %.1f s:\n%s", time.Since(began).Seconds(),
		g.Do(t, "get", "-n", namespace, "rollout,httpso,scaledobject,hpa"))
	service := g.Do(t, "get", "-n", namespace, "httpscaledobject/"+testbed.App, "-o",
		"jsonpath={.spec.scaleTargetRef.service}")
	if service != "rollouts-demo-stable" {
		t.Errorf("the HTTPScaledObject is for Service %q, want that of the Rollout's stable side", service)
	}
	g.Do(t, "wait", "-n", namespace, "rollout/"+testbed.App, "--for=jsonpath={.status.phase}=Healthy")
	awaitAnswers(t, g.loadOf(target))
}

// awaitAnswers waits until a target answers. The condition Programmed does not cover Pods, and requests for a target with
// a minimum above 0 are not queued: until the proxy has an endpoint, it answers 503.
func awaitAnswers(t *testing.T, config load.Config) {
	t.Helper()
	var answers int
	var probed error
	await.Described(t, fmt.Sprintf("%d answers in a row for %s", installed, config.Host), func() bool {
		if _, probed = load.Probe(t.Context(), config); probed != nil {
			answers = 0
			return false
		}
		answers++
		return answers == installed
	}, func() string { return fmt.Sprintf("%d answers, then: %v", answers, probed) })
}

// abortByAnalysis sets an image with an error in every second response, and the analysis of docs/how-to/analysis.md.
// Only the analysis aborts the canary. The later requests of underLoad do not fail any more.
func (g guide) abortByAnalysis(t *testing.T, repo string) {
	t.Helper()
	g.Do(t, "apply", "-n", namespace, "-f", filepath.Join(repo, "examples", "argo-rollouts-canary", "analysis.yaml"))
	const bad = `[{"name": "rollouts-demo", "image": "argoproj/rollouts-demo:yellow", "ports": [{"name": "http", "containerPort": 8080}],
		"env": [{"name": "ERROR_RATE", "value": "50"}]}]`
	client := g.send(t, 25)
	began := time.Now()
	g.Do(t, "patch", "-n", namespace, "rollout/"+testbed.App, "--type=merge", "-p", analysis(t, repo))
	g.Do(t, "patch", "-n", namespace, "rollout/"+testbed.App, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"containers":`+bad+`}}}}`)
	// status.abort is still true because of the previous canary.
	why := ""
	await.Described(t, "the analysis aborts the canary", func() bool {
		why = g.Do(t, "get", "-n", namespace, "rollout/"+testbed.App, "-o", "jsonpath={.status.message}")
		return strings.Contains(why, `"error-rate" assessed Failed`)
	}, func() string { return why })
	elapsed := time.Since(began)
	await.True(t, "no response of the aborted canary", func() bool {
		window := client.Recent(3 * time.Second)
		return window.Done > 0 && window.Colors["blue"] == window.Done
	})
	totals, _ := client.Stop()
	if totals.Failed == 0 {
		t.Errorf("aborted with %q, and no request failed", why)
	}
	t.Logf("a canary with errors is aborted after %.1f s and %d of %d requests: %s", elapsed.Seconds(),
		totals.Failed, totals.Sent, why)
	await.True(t, "the canary has no weight", func() bool { return g.weights(t) == "" })
}

// analysis returns the part of a Rollout that docs/how-to/analysis.md shows.
func analysis(t *testing.T, repo string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repo, "docs", "how-to", "analysis.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "```yaml analysis\n")
	block, _, _ = strings.Cut(block, "```")
	patch, err := yaml.YAMLToJSON([]byte(block))
	if err != nil || !ok {
		t.Fatalf("docs/how-to/analysis.md has no such block: %v", err)
	}
	return string(patch)
}

// underLoad sends requests at a rate while do runs. None may fail.
func (g guide) underLoad(t *testing.T, rate float64, do func()) {
	t.Helper()
	client, began := g.send(t, rate), time.Now()
	defer func() {
		totals, _ := client.Stop()
		t.Logf("%v requests a second: %d sent, %d failed", rate, totals.Sent, totals.Failed)
		if totals.Failed > 0 {
			invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v\n%s", totals.Failed, totals.Sent,
				totals.Reasons, failures(client, began))
		}
	}()
	do()
}

// failures describes the first failed requests of a client, with times relative to a moment.
func failures(client *load.Client, moment time.Time) string {
	tally := trace.Summarize(client.Results(), nil, await.Patience())
	return strings.Join(tally.Describe(moment, await.Patience()), "\n")
}

// send sends requests at a rate until the client is stopped.
func (g guide) send(t *testing.T, rate float64) *load.Client {
	t.Helper()
	client, err := load.Start(t.Context(), g.loadOf(rate))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// loadOf returns the configuration of requests at a rate.
func (g guide) loadOf(rate float64) load.Config {
	return load.Config{
		Address: g.Addresses[proxies], Host: testbed.Host, Path: "/color", Rate: rate, Timeout: await.Patience(),
		MaxInFlight: inFlight(rate), Colors: []string{"blue", "yellow"},
	}
}

// inFlight returns the number of requests that are due within await.Patience, which is the maximum number of concurrent
// requests.
func inFlight(rate float64) int { return int(math.Ceil(rate * await.Patience().Seconds())) }

// isWanted reports whether a number of replicas fits a rate. The tolerance is one replica, or 10 % like that of the
// HorizontalPodAutoscaler.
func isWanted(replicas int, rate float64) bool {
	right := min(max(math.Ceil(rate/target), least), most)
	return math.Abs(float64(replicas)-right) <= max(1, right/10)
}

// awaitWanted waits until the Rollout has the replicas for a rate, and checks that it keeps them.
func (g guide) awaitWanted(t *testing.T, rate float64) {
	t.Helper()
	began, seen := time.Now(), 0
	await.Described(t, fmt.Sprintf("the replicas for %v requests a second", rate), func() bool {
		seen = g.count(t)
		return isWanted(seen, rate)
	}, func() string { return strconv.Itoa(seen) })
	t.Logf("%v requests a second: %d replicas after %.0f s", rate, seen, time.Since(began).Seconds())
	g.checkStaysWanted(t, rate, "from there on")
}

// checkStaysWanted checks that the Rollout has the replicas for a rate during the time rest.
func (g guide) checkStaysWanted(t *testing.T, rate float64, why string) {
	t.Helper()
	//testbounds:allow how long the replicas must stay
	ctx, cancel := context.WithTimeout(t.Context(), rest)
	defer cancel()
	seen := 0
	for ctx.Err() == nil {
		if seen = g.count(t); !isWanted(seen, rate) {
			t.Fatalf("%d replicas at %v requests a second: %s", seen, rate, why)
		}
	}
	t.Logf("%d replicas for %s: %s", seen, rest, why)
}

// count returns the number of replicas in the spec of the Rollout.
func (g guide) count(t *testing.T) int {
	t.Helper()
	replicas, err := strconv.Atoi(g.Do(t, "get", "-n", namespace, "rollout/"+testbed.App, "-o",
		"jsonpath={.spec.replicas}"))
	if err != nil {
		t.Fatal(err)
	}
	return replicas
}

// argo runs a command of kubectl-argo-rollouts.
func (g guide) argo(t *testing.T, args ...string) {
	t.Helper()
	testbed.Kubectl{Cluster: g.Cluster, Namespace: namespace}.Argo(t, args...)
}

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	return [][]string{
		{"get", "-n", namespace, "rollout,httpso,scaledobject,hpa,pods"},
		{"describe", "-n", namespace, "scaledobject/" + testbed.App},
		{"describe", "-n", namespace, "hpa"},
		{"logs", "-n", "keda", "deployment/keda-operator", "--tail=40"},
		{"logs", "-n", "keda", "-l", "app.kubernetes.io/component=scaler", "--tail=40"},
		{"logs", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--tail=40"},
		{"logs", "-n", "keda", "deployment/keda-add-ons-http-interceptor", "--tail=40"},
	}
}
