package keda

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// between is the time between two looks: the rows share the machine.
	between = time.Second
	// held is how long replicas must stay: more than two syncs of the HorizontalPodAutoscaler.
	held = 20 * time.Second
	// canaryRate is the load of the canary in requests per second, which requires 5 replicas.
	canaryRate = 22
)

// metricRow is an InterceptorRoute with its metrics, and the replicas for a rate of requests.
type metricRow struct {
	name, metric string
	// latency is the response time of the app in seconds, rate the number of requests per second.
	latency string
	rate    float64
	// least and most are the bounds of the expected replicas. Requests in flight vary, and so do their replicas.
	least, most int
}

// metricRows returns the rows. At 10 requests per second of half a second each, 5 are in flight.
func metricRows() []metricRow {
	return []metricRow{
		{"rate", "requestRate: {targetValue: 5, window: 10s}", "0", 12, 3, 3},
		{"concurrency", "concurrency: {targetValue: 2}", "0.5", 10, 2, 4},
		{"both by rate", "concurrency: {targetValue: 100}, requestRate: {targetValue: 5, window: 10s}", "0", 12, 3, 3},
		{"both by concurrency", "concurrency: {targetValue: 2}, requestRate: {targetValue: 100, window: 10s}", "0.5", 10, 2, 4},
	}
}

// TestInterceptorRoute scales apps by InterceptorRoutes with a stock KEDA: from zero, by each metric and by both, and
// back to zero. A canary by an InterceptorRoute runs at the same time. No request fails.
func TestInterceptorRoute(t *testing.T) { //nolint:tparallel // the tests of the suite share a cluster
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{testbed.KEDAAddon()}})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	testbed.Kubectl{Cluster: cluster}.CheckKEDAVersion(t)
	route := func(name string) *routed {
		namespace := "route-" + strings.ReplaceAll(name, " ", "-")
		return &routed{testbed.Kubectl{Cluster: cluster, Namespace: namespace}, node, repo}
	}
	for _, row := range metricRows() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			route(row.name).checkMetric(t, row)
		})
	}
	t.Run("canary", func(t *testing.T) {
		t.Parallel()
		route("canary").checkCanary(t)
	})
}

// routed is a namespace with InterceptorRoutes.
type routed struct {
	testbed.Kubectl

	node *inside.Cluster
	repo string
}

// prepare creates the namespace with its proxies.
func (r *routed) prepare(t *testing.T) {
	t.Helper()
	r.CreateNamespace(t, r.Namespace)
	r.ExplainFailure(t, []string{"get", "scaledobject,interceptorroute,hpa,pods,rollout,deployment"},
		[]string{"describe", "interceptorroute"}, []string{"describe", "scaledobject"}, []string{"describe", "hpa"},
		[]string{"get", "events"})
	r.Do(t, "apply", "-f", testbed.LimitRangeFile(r.repo))
	r.Do(t, "apply", "-k", filepath.Join(r.repo, "config", "kedify-proxy"))
	r.Do(t, "rollout", "status", "deployment/kedify-proxy")
}

// addApp applies the app of a row.
func (r *routed) addApp(t *testing.T, name string, row metricRow) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(r.repo, "e2e", "suites", "keda", "interceptorroute.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	text := strings.NewReplacer("NAME", name, `"LATENCY"`, strconv.Quote(row.latency), "METRIC", row.metric).
		Replace(string(manifest))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Do(t, "apply", "-f", file)
	r.Do(t, "wait", "interceptorroute/"+name, "--for=condition=Programmed")
	r.Do(t, "wait", "scaledobject/"+name, "--for=condition=Ready")
}

// checkMetric lets an app follow its requests from zero and back. Another app of the namespace stays at zero, although
// its static route answers requests.
func (r *routed) checkMetric(t *testing.T, row metricRow) {
	t.Helper()
	r.prepare(t)
	r.addApp(t, "web", row)
	r.addApp(t, "idle", row)
	r.checkBetween(t, "web", 0, 0)
	static := r.send(t, load.Config{Host: "idle.test", Path: "/healthz", Rate: row.rate, Colors: []string{"static"}})
	client := r.send(t, load.Config{Host: "web.test", Path: "/color", Rate: row.rate, Colors: []string{"blue"}})
	r.awaitBetween(t, "web", row.least, row.most)
	r.checkBetween(t, "idle", 0, 0)
	stopAll(t, client, static)
	r.awaitBetween(t, "web", 0, 0)
}

// checkCanary pauses a canary at two weights under load. The replicas follow the requests of both sides.
func (r *routed) checkCanary(t *testing.T) {
	t.Helper()
	r.prepare(t)
	r.Do(t, "apply", "-f", filepath.Join(r.repo, "e2e", "suites", "keda", "canary.yaml"))
	r.Do(t, "wait", "interceptorroute/web", "--for=condition=Programmed")
	r.Do(t, "wait", "scaledobject/web", "--for=condition=Ready")
	r.Do(t, "wait", "rollout/web", "--for=jsonpath={.status.phase}=Healthy")
	config := load.Config{Host: "web.test", Path: "/color", Rate: canaryRate, Colors: []string{"blue", "yellow"}}
	r.awaitAnswer(t, config)
	client := r.send(t, config)
	r.awaitBetween(t, "web", 5, 5)

	r.Argo(t, "set", "image", "web", "web=argoproj/rollouts-demo:yellow")
	r.checkStep(t, client, 1, 0.2)
	r.awaitBetween(t, "web", 5, 5)
	r.Argo(t, "promote", "web")
	r.checkStep(t, client, 3, 0.6)
	r.Argo(t, "promote", "web")
	r.Do(t, "wait", "rollout/web", "--for=jsonpath={.status.phase}=Healthy")
	await.True(t, "the new version answers all requests", func() bool {
		window := client.Recent(3 * time.Second)
		return window.Done > 0 && window.Colors["yellow"] == window.Done
	})
	r.awaitBetween(t, "web", 5, 5)
	stopAll(t, client)
	if left := r.Do(t, "get", "interceptorroute/web", "-o", `jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`); left != "" {
		t.Errorf("weights after the canary: %s", left)
	}
}

// checkStep waits for the pause of a step, counted from 0, and measures the canary's share of the requests.
func (r *routed) checkStep(t *testing.T, client *load.Client, step int, share float64) {
	t.Helper()
	r.Do(t, "wait", "rollout/web", fmt.Sprintf("--for=jsonpath={.status.currentStepIndex}=%d", step))
	r.Do(t, "wait", "rollout/web", "--for=jsonpath={.status.phase}=Paused")
	const enough = 300
	rule, from := stats.DefaultRule(), time.Now().Add(between) // Envoy's workers apply a weight one after the other.
	split := func(n int) stats.Split {
		window, err := client.Sample(t.Context(), from, n)
		if err != nil {
			t.Fatal(err)
		}
		return stats.Split{Hits: window.Colors["yellow"], Total: window.Done}
	}
	got := split(enough)
	verdict := rule.Evaluate(got, share)
	if verdict == stats.Unsure {
		from = time.Now()
		got = split(2 * enough)
		verdict = rule.EvaluateSecond(got, share)
	}
	if verdict != stats.Agrees {
		t.Errorf("%d of %d requests were answered by the canary, want %.0f %%", got.Hits, got.Total, 100*share)
	}
	t.Logf("%d of %d requests at %.0f %%", got.Hits, got.Total, 100*share)
}

// configured completes the configuration of requests to the proxies of the namespace.
func (r *routed) configured(t *testing.T, config load.Config) load.Config {
	t.Helper()
	config.Address = r.Do(t, "get", "service/kedify-proxy", "-o", "jsonpath={.spec.clusterIP}") + ":8080"
	config.Dial, config.Timeout = r.node.DialContext, await.Patience()
	config.MaxInFlight = int(math.Ceil(config.Rate * config.Timeout.Seconds())) // all that are due in that time
	return config
}

// send starts requests.
func (r *routed) send(t *testing.T, config load.Config) *load.Client {
	t.Helper()
	client, err := load.Start(t.Context(), r.configured(t, config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Stop() })
	return client
}

// awaitAnswer waits until the app answers: the condition Programmed does not cover Pods.
func (r *routed) awaitAnswer(t *testing.T, config load.Config) {
	t.Helper()
	config = r.configured(t, config)
	const inARow = 20 // after which every worker of a proxy has the endpoints
	answers := 0
	await.True(t, "the app answers", func() bool {
		answers++
		if _, err := load.Probe(t.Context(), config); err != nil {
			answers = 0
		}
		return answers == inARow
	})
}

// stopAll stops requests, of which none may have failed.
func stopAll(t *testing.T, clients ...*load.Client) {
	t.Helper()
	for _, client := range clients {
		totals, _ := client.Stop()
		t.Logf("%d requests, %d failed", totals.Sent, totals.Failed)
		if totals.Failed > 0 || totals.OK == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v", totals.Failed, totals.Sent, totals.Reasons)
		}
	}
}

// replicas returns the number of replicas in the spec of an app.
func (r *routed) replicas(t *testing.T, name string) int {
	t.Helper()
	text := r.Do(t, "get", "deployment,rollout", "--field-selector=metadata.name="+name, "-o",
		"jsonpath={.items[0].spec.replicas}")
	replicas, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return replicas
}

// awaitBetween waits until an app has had from least to most replicas for the time held, and logs when that began. The
// requests that waited for the first replica are a peak, so the number may be higher before.
func (r *routed) awaitBetween(t *testing.T, name string, least, most int) {
	t.Helper()
	began := time.Now()
	looked, since, seen := time.Time{}, began, -1
	await.Described(t, fmt.Sprintf("%s has %d to %d replicas for %s", name, least, most, held), func() bool {
		if time.Since(looked) < between {
			return false
		}
		looked, seen = time.Now(), r.replicas(t, name)
		if seen < least || seen > most {
			since = looked
		}
		return looked.Sub(since) >= held
	}, func() string { return strconv.Itoa(seen) })
	t.Logf("%s: %d to %d replicas after %.0f s", name, least, most, since.Sub(began).Seconds())
}

// checkBetween checks that an app keeps from least to most replicas.
func (r *routed) checkBetween(t *testing.T, name string, least, most int) {
	t.Helper()
	//testbounds:allow how long the replicas must stay, and the pause between two looks
	for began := time.Now(); time.Since(began) < held; <-time.After(between) {
		if seen := r.replicas(t, name); seen < least || seen > most {
			t.Fatalf("%s has %d replicas, want %d to %d", name, seen, least, most)
		}
	}
	t.Logf("%s: %d to %d replicas for %s", name, least, most, held)
}
