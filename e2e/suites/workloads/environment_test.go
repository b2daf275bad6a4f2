package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/e2e/tutorial"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// namespace is the namespace of the page, host the host of its application.
	namespace, host = "shop", "shop.example.com"
	// before and after are the colors of the two versions.
	before, after = "blue", "yellow"
	// rate is the number of requests per second, sample the number of requests in a measurement.
	rate, sample = 100, 500
	// installed is the number of consecutive responses after which the application counts as installed.
	installed = 20
	// updateDelay is the time in which the workers of a proxy apply a route.
	updateDelay = 200 * time.Millisecond
)

// environment is a cluster, and the page with its commands.
type environment struct {
	testbed.Kubectl

	node *inside.Cluster
	page pages.Pages
	repo string
	// folder is the working directory of the commands.
	folder string
	stalls *stall.Detector
}

// launch starts a cluster.
func launch(t *testing.T) *environment {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	cluster, repo := testbed.Launch(t, provider.Spec{})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	page, err := pages.Read(filepath.Join(repo, "docs", "how-to"), "deployment-to-rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	return &environment{
		Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: namespace}, node: node, page: page, repo: repo,
		folder: t.TempDir(), stalls: stall.Watch(t),
	}
}

// app is a running application with its load.
type app struct {
	*environment

	pod    testbed.ClientPod
	client *load.Client
}

// deploy applies a manifest with the proxies in a new namespace, waits until the workload answers, and starts the load.
func (e *environment) deploy(t *testing.T, manifest string) *app {
	t.Helper()
	e.CreateNamespace(t, namespace)
	e.ExplainFailure(t, []string{"get", "rollout,deployment,replicaset,pods,services,endpointslices", "-o", "wide"},
		[]string{"get", "httpscaledobject", "-o", "yaml"}, []string{"get", "events", "--sort-by=.lastTimestamp"},
		[]string{"-n", "argo-rollouts", "logs", "deployment/argo-rollouts", "--tail=40"})
	e.Do(t, "apply", "-f", testbed.LimitRangeFile(e.repo))
	e.Do(t, "apply", "-k", filepath.Join(e.repo, "config", "kedify-proxy"))
	e.Do(t, "apply", "-f", filepath.Join(e.repo, "e2e", "suites", "workloads", "testdata", manifest))
	e.Do(t, "rollout", "status", "deployment/kedify-proxy")
	e.Do(t, "wait", "httpscaledobject", "--all", "--for=condition=Programmed")
	a := &app{environment: e, pod: e.StartClientPod(t, e.node, "client")}
	a.awaitAnswers(t)
	a.send(t)
	return a
}

// target returns the configuration of requests to Service kedify-proxy.
func (a *app) target(t *testing.T) load.Config {
	t.Helper()
	return load.Config{
		Address: a.ServiceAddress(t, "kedify-proxy"), Dial: a.pod.DialContext, Host: host, Path: "/color",
		Timeout: await.Patience(), MaxInFlight: rate * int(await.Patience().Seconds()), Rate: rate,
		Colors: []string{before, after},
	}
}

// awaitAnswers waits until the application answers through the proxies.
func (a *app) awaitAnswers(t *testing.T) {
	t.Helper()
	answers, target := 0, a.target(t)
	var probed error
	await.Described(t, fmt.Sprintf("%d answers in a row", installed), func() bool {
		if _, probed = load.Probe(t.Context(), target); probed != nil {
			answers = 0
			return false
		}
		answers++
		return answers == installed
	}, func() string { return fmt.Sprintf("%d answers, then: %v", answers, probed) })
}

// send starts the load, which runs until the test ends. No request may fail.
func (a *app) send(t *testing.T) {
	t.Helper()
	client, err := load.Start(t.Context(), a.target(t))
	if err != nil {
		t.Fatal(err)
	}
	a.client = client
	t.Cleanup(func() {
		totals, _ := client.Stop()
		t.Logf("%d requests, %d failed %v; started at most %s late", totals.Sent, totals.Failed, totals.Reasons, totals.Lag)
		if totals.Failed > 0 || totals.Sent == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v", totals.Failed, totals.Sent, totals.Reasons)
		}
	})
}

// run runs the n-th commands below a heading of the page unchanged, except for time limits. They must print what the
// page shows.
func (e *environment) run(t *testing.T, heading string, n int) {
	t.Helper()
	step := tutorial.Step{
		Commands: testbed.Block(t, e.page, heading, "sh", n), Output: testbed.Block(t, e.page, heading, "text", n),
	}
	// Each of the commands may wait for await.Patience.
	ctx, cancel := context.WithTimeout(t.Context(), 3*await.Patience())
	defer cancel()
	out, err := e.Run(ctx, "bash", "-euo", "pipefail", "-c",
		testbed.InFolder(e.folder, testbed.WithPatience(step.Commands)))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s%s", step.Commands, out)
	if err := step.Compare(out); err != nil {
		t.Errorf("$ %s%v", step.Commands, err)
	}
}

// write writes the Rollout below a heading of the page to its file.
func (e *environment) write(t *testing.T, heading string) {
	t.Helper()
	text := testbed.Block(t, e.page, heading, "yaml", 0)
	if err := os.WriteFile(filepath.Join(e.folder, "shop-rollout.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// split checks the new version's share of the requests.
func (a *app) split(t *testing.T, share float64) {
	t.Helper()
	result, err := assert.Expectation{
		Color: after, Share: share, From: time.Now().Add(updateDelay), First: sample, Second: 2 * sample,
		Rule: stats.DefaultRule(), Stalls: a.stalls,
	}.Check(t.Context(), a.client.Sample)
	if errors.Is(err, assert.ErrSplit) {
		invariant.Broken(t, invariant.Split, "%v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("desired %.0f %%, measured %d of %d", 100*share, result.Hits, result.Total)
}

// awaitAll waits until the new version answers all requests.
func (a *app) awaitAll(t *testing.T) {
	t.Helper()
	var window load.Window
	await.Described(t, after+" to answer all requests", func() bool {
		window = a.client.Recent(time.Second)
		return window.Complete() && window.Done > 0 && window.Colors[after] == window.Done
	}, func() string { return fmt.Sprint(window.Colors) })
	a.split(t, 1)
}
