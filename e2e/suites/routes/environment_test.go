package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// host is the host of the app, controlHost that of the control.
	host, controlHost = "routes.example.com", "control.example.com"
	// installed is the number of consecutive responses after which the app counts as installed.
	installed = 20
)

// environment gives access to a cluster.
type environment struct {
	cluster *provider.Cluster
	inside  *inside.Cluster
	repo    string
}

// launch starts a cluster.
func launch(t *testing.T) environment {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{"envoy-gateway"}})
	reached, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	return environment{cluster, reached, repo}
}

// run is the app with one router.
type run struct {
	environment
	testbed.Kubectl

	address string // address for requests, in the cluster
}

// install applies the app with a router and its additional files in a new namespace.
func (w environment) install(t *testing.T, namespace, plugin, file string) *run {
	t.Helper()
	r := &run{environment: w, Kubectl: testbed.Kubectl{Cluster: w.cluster, Namespace: namespace}}
	r.CreateNamespace(t, namespace)
	text, err := os.ReadFile("objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(objects, []byte(strings.Replace(string(text), "plugins: {PLUGIN}", "plugins: {"+plugin+"}", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	r.ExplainFailure(t,
		[]string{"get", "rollout,experiment,replicaset,pod,service,httproute,httpso", "-o", "wide"},
		[]string{"get", "httproute,httpso", "-o", "yaml"},
		[]string{"get", "events", "--sort-by=.lastTimestamp"},
		[]string{"-n", "argo-rollouts", "logs", "deploy/argo-rollouts", "--tail=40"})
	r.Do(t, "apply", "-f", testbed.LimitRangeFile(w.repo))
	r.Do(t, "apply", "-f", file)
	r.Do(t, "apply", "-f", objects)
	return r
}

// kedifyProxy installs the namespace's proxies.
func (r *run) kedifyProxy(t *testing.T) {
	t.Helper()
	r.Do(t, "apply", "-k", filepath.Join(r.repo, "config", "kedify-proxy"))
	r.Do(t, "rollout", "status", "deployment/kedify-proxy")
	r.Do(t, "wait", "httpscaledobject/web", "--for=condition=Programmed")
	r.address = r.Do(t, "get", "service", "kedify-proxy", "-o", "jsonpath={.spec.clusterIP}") + ":8080"
}

// envoyGateway waits for the Gateway. Its objects outside the namespace are deleted with the test.
func (r *run) envoyGateway(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		if _, err := r.Run(ctx, "kubectl", "delete", "gatewayclass", "routes", "--ignore-not-found",
			"--wait=false"); err != nil {
			t.Error(err)
		}
	})
	r.Do(t, "wait", "gateway/routes", "--for=condition=Programmed")
	r.address = r.Do(t, "-n", "envoy-gateway-system", "get", "service", "routes-gateway", "-o",
		"jsonpath={.spec.clusterIP}") + ":80"
}

// target returns the configuration of the requests.
func (r *run) target(host string) load.Config {
	return load.Config{
		Address: r.address, Dial: r.inside.DialContext, Host: host, Path: "/color", Timeout: await.Patience(),
		MaxInFlight: rate * int(await.Patience().Seconds()),
	}
}

// awaitAnswers waits until the app also responds through the proxy.
func (r *run) awaitAnswers(t *testing.T) {
	t.Helper()
	r.awaitHealthy(t)
	var answers int
	var probed error
	await.Described(t, fmt.Sprintf("%d answers in a row", installed), func() bool {
		if _, probed = load.Probe(t.Context(), r.target(host)); probed != nil {
			answers = 0
			return false
		}
		answers++
		return answers == installed
	}, func() string { return fmt.Sprintf("%d answers, then: %v", answers, probed) })
}

// send starts a load, which runs until the test ends. None of its requests may fail.
func (r *run) send(t *testing.T, name string, rate float64, header map[string]string) *load.Client {
	t.Helper()
	config := r.target(host)
	config.Rate, config.Header = rate, header
	client, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		totals, pinned := client.Stop()
		t.Logf("%s: %d requests, %d failed %v; started at most %s late", name, totals.Sent,
			totals.Failed, totals.Reasons, totals.Lag)
		if totals.Failed > 0 || totals.Sent == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d: %v", name, totals.Failed, totals.Sent, totals.Reasons)
			t.Log(testbed.EnvoyGatewayErrors(r.cluster.Logs))
		}
		for _, p := range pinned {
			if p.Lost != nil || p.Answered == 0 {
				t.Errorf("%s: the %s connection is lost after %d answers: %v", name, p.Kind, p.Answered, p.Lost)
			}
		}
	})
	return client
}

// awaitMeasured measures until there is no problem, because proxies may apply a route late. A persistent problem is a
// broken split.
func awaitMeasured(t *testing.T, what string, problem func() string) {
	t.Helper()
	got := ""
	err := await.Until(t.Context(), what, func() bool {
		if got = problem(); got != "" {
			t.Logf("%s, late or wrong: %s", what, got)
		}
		return got == ""
	}, func() string { return got })
	if err != nil {
		invariant.Broken(t, invariant.Split, "%v", err)
	}
}

// sample waits for n requests from a moment on.
func (*run) sample(t *testing.T, client *load.Client, from time.Time, n int) load.Window {
	t.Helper()
	window, err := client.Sample(t.Context(), from, n)
	if err != nil {
		t.Fatal(err)
	}
	return window
}

// rollout returns the present Rollout.
func (r *run) rollout(t *testing.T) kube.Rollout {
	t.Helper()
	var read kube.Rollout
	if err := json.Unmarshal([]byte(r.Do(t, "get", "rollout", "web", "-o", "json")), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// awaitHealthy waits until the Rollout is healthy.
func (r *run) awaitHealthy(t *testing.T) {
	t.Helper()
	var seen kube.Rollout
	await.Described(t, "the Rollout to be Healthy", func() bool { seen = r.rollout(t); return seen.Healthy() },
		func() string { return "it is " + seen.String() })
}

// awaitPause waits until the Rollout pauses at the step of that index.
func (r *run) awaitPause(t *testing.T, step int) {
	t.Helper()
	var seen kube.Rollout
	await.Described(t, fmt.Sprintf("the pause of step %d", step), func() bool {
		seen = r.rollout(t)
		return seen.Paused() && seen.Status.CurrentStepIndex != nil && *seen.Status.CurrentStepIndex == step
	}, func() string { return "it is " + seen.String() })
}

// promote ends a pause.
func (r *run) promote(t *testing.T) {
	t.Helper()
	r.Argo(t, "promote", "web")
}

// experiment waits until the Experiment has its weights and the router reports them as active.
func (r *run) experiment(t *testing.T) {
	t.Helper()
	const want = "10 5 true"
	seen := ""
	await.Described(t, "the Experiment's weights", func() bool {
		seen = r.Do(t, "get", "rollout", "web", "-o",
			"jsonpath={.status.canary.weights.additional[*].weight} {.status.canary.weights.verified}")
		return seen == want
	}, func() string { return seen })
}

// role is the role of a Pod: stable, canary, or one of the Experiment's templates.
type role string

const (
	stable role = "stable"
	canary role = "canary"
)

// pod is the relevant part of a Pod.
type pod struct {
	Metadata struct {
		Name            string                  `json:"name"`
		OwnerReferences []struct{ Name string } `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		PodIP string `json:"podIP"`
	} `json:"status"`
}

// pods returns the app's Pods by role.
func (r *run) pods(t *testing.T) map[role][]pod {
	t.Helper()
	now := r.rollout(t).Status
	var list struct {
		Items []pod `json:"items"`
	}
	if err := json.Unmarshal([]byte(r.Do(t, "get", "pods", "-l", "app=web", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	pods := map[role][]pod{}
	for _, p := range list.Items {
		podRole := roleOf(p, now)
		pods[podRole] = append(pods[podRole], p)
	}
	return pods
}

// roleOf returns the role of a Pod by its ReplicaSet. The name of an Experiment's ReplicaSet ends with the name of its
// template.
func roleOf(p pod, now kube.RolloutStatus) role {
	owner := ""
	for _, reference := range p.Metadata.OwnerReferences {
		owner = reference.Name
	}
	switch hash := strings.TrimPrefix(owner, "web-"); hash {
	case now.StableRS:
		return stable
	case now.CurrentPodHash:
		return canary
	}
	return role(owner[strings.LastIndex(owner, "-")+1:])
}

// byRole counts the successful responses of a window by the role of the Pod.
func (r *run) byRole(t *testing.T, window load.Window) map[role]int {
	t.Helper()
	roles := map[string]role{}
	for podRole, pods := range r.pods(t) {
		for _, p := range pods {
			roles[p.Metadata.Name] = podRole
		}
	}
	counts := map[role]int{}
	for name, answers := range window.Colors {
		podRole, known := roles[name]
		if !known {
			podRole = role("gone: " + name)
		}
		counts[podRole] += answers
	}
	return counts
}

// countOf returns the number of requests for the color that all Pods of a role have received.
func (r *run) countOf(t *testing.T, podRole role) int {
	t.Helper()
	client := http.Client{Transport: r.inside.Transport(), Timeout: await.Patience()}
	defer client.CloseIdleConnections()
	sum := 0
	for _, p := range r.pods(t)[podRole] {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+p.Status.PodIP+":8080/requests", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		count, wrong := strconv.Atoi(strings.TrimSpace(string(body)))
		if err != nil || wrong != nil {
			t.Fatalf("%s returned %q: %v, %v", p.Metadata.Name, body, err, wrong)
		}
		sum += count
	}
	return sum
}
