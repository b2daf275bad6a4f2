package helm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// mostCommands is the maximum number of commands from Argo Rollouts and KEDA to a wake from zero and a measured split.
	mostCommands = 4
	// asleep is how long the application stays without replicas before the request that wakes it: KEDA polls once when the
	// pollingInterval changes.
	asleep = 15 * time.Second
	// measuredRate is the number of requests per second in the measurement of a split.
	measuredRate = 100
)

// TestInstall goes from a cluster with Argo Rollouts and KEDA to a wake from zero and a canary at a measured 20 %, by
// the commands of docs/how-to/install.md. Then it uninstalls everything.
func TestInstall(t *testing.T) {
	e := launch(t)
	shop := e.deployShop(t)
	before := e.inventory(t)
	step(t, "from Argo Rollouts and KEDA to a wake from zero and a measured 20 %", e.installByPage)
	step(t, "helm test sends requests", e.runHelmTest)
	step(t, "the agent wires the other Ingresses", shop.wire)
	step(t, "the chart is uninstalled", e.uninstall)
	step(t, "the Ingresses are as before", shop.checkRestored)
	step(t, "nothing remains", func(t *testing.T) {
		t.Helper()
		e.checkNothingRemains(t, before)
	})
}

// installByPage runs the page's commands.
func (e *environment) installByPage(t *testing.T) {
	t.Helper()
	e.spent, e.ran = 0, 0
	began := time.Now()
	output := e.run(t, testbed.Block(t, e.howTo, "With Helm", "sh", 0))
	t.Log(output)
	k := e.kubectl(demo)
	e.awaitWired(t)
	e.awaitZero(t)
	latency := e.wake(t)
	e.run(t, testbed.Block(t, e.howTo, "With Helm", "sh", 1))
	if e.ran > mostCommands {
		t.Errorf("the page has %d commands up to here, want at most %d", e.ran, mostCommands)
	}
	k.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused")
	e.measure(t)
	t.Logf("%d commands, %.0f s in all, %.0f s of them the commands; the request to zero replicas was answered after %v",
		e.ran, time.Since(began).Seconds(), e.spent.Seconds(), latency)
}

// awaitWired waits until the agent has pointed the Ingress at the proxies.
func (e *environment) awaitWired(t *testing.T) {
	t.Helper()
	e.kubectl(demo).Do(t, "wait", "ingress/rollouts-demo",
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
}

// awaitZero waits until the application has no Pods, and disables KEDA's polls, so that only the push wakes it. It
// checks that the application then stays without Pods for a while.
func (e *environment) awaitZero(t *testing.T) {
	t.Helper()
	k := e.kubectl(demo)
	pods := func() string { return k.Do(t, "get", "pods", "-l", "app=rollouts-demo", "-o", "name") }
	// The Rollout may have no replica yet, instead of none any more.
	k.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	seen := ""
	await.Described(t, "zero replicas", func() bool {
		seen = pods()
		return seen == ""
	}, func() string { return seen })
	k.Do(t, "patch", "scaledobject/rollouts-demo", "--type=merge", "-p", `{"spec":{"pollingInterval":86400}}`)
	for began := time.Now(); time.Since(began) < asleep; {
		if seen := pods(); seen != "" {
			t.Fatalf("without a request there are\n%s", seen)
		}
	}
}

// wake sends one request to an application without replicas, and returns its latency.
func (e *environment) wake(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if answer, isStable := e.request(t); !isStable {
		t.Fatalf("the answer to the request that wakes is %s", answer)
	}
	return time.Since(began)
}

// request sends one request to the page's application. It returns the answer for a message, and whether it is that of
// the stable version.
func (e *environment) request(t *testing.T) (answer string, isStable bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+e.Cluster.Addresses[provider.IngressAddress]+"/color", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = testbed.Host
	client := &http.Client{Timeout: await.Patience()}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%s, %q, %v", response.Status, body, err),
		err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), "blue")
}

// startLoad starts to send requests for the page's application to the Ingress controller.
func (e *environment) startLoad(t *testing.T, rate float64) *load.Client {
	t.Helper()
	client, err := load.Start(t.Context(), load.Config{
		Address: e.Cluster.Addresses[provider.IngressAddress], Host: testbed.Host, Path: "/color", Rate: rate,
		Timeout: await.Patience(), MaxInFlight: int(rate * await.Patience().Seconds()), Colors: []string{"blue", "yellow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// stopLoad stops a load, of which no request may have failed.
func stopLoad(t *testing.T, client *load.Client) {
	t.Helper()
	totals, _ := client.Stop()
	if totals.Failed > 0 || totals.Ended == 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d: %v", totals.Failed, totals.Ended, totals.Reasons)
	}
	t.Logf("%d of %d requests failed", totals.Failed, totals.Ended)
}

// measure sends requests until the share of the new version is measured: 20 %.
func (e *environment) measure(t *testing.T) {
	t.Helper()
	client := e.startLoad(t, measuredRate)
	defer stopLoad(t, client)
	result, err := assert.Expectation{
		Color: "yellow", Share: 0.2, From: time.Now(), First: 1000, Second: 2000, Rule: stats.DefaultRule(),
		Stalls: e.stalls,
	}.Check(t.Context(), client.Sample)
	switch {
	case errors.Is(err, assert.ErrSplit):
		invariant.Broken(t, invariant.Split, "%v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Logf("requested 20 %%: %d of %d requests got the new version", result.Hits, result.Total)
}

// runHelmTest runs helm test: alone, with a request through the proxies, and with one that fails.
func (e *environment) runHelmTest(t *testing.T) {
	t.Helper()
	command := testbed.Block(t, e.chart, "Install", "sh", 0)
	check := func() {
		t.Helper()
		if output := e.run(t, command); !strings.Contains(output, "Phase:          Succeeded") {
			t.Errorf("helm test: %s", output)
		}
	}
	check()
	const upgrade = "helm upgrade kedify-http charts/kedify-http --namespace keda --reset-then-reuse-values "
	e.run(t, upgrade+"--set tests.url=http://kedify-proxy.rollouts-demo:8080/color,tests.host="+testbed.Host)
	check()
	e.awaitAccess(t, `"Wget`)
	e.run(t, upgrade+"--set tests.host=unknown.example.com")
	output, err := e.try(t.Context(), firstTag, command)
	if err == nil {
		t.Errorf("helm test succeeds although the proxies answer 404: %s", output)
	}
}

// awaitAccess waits until the access log of the proxies of the page's application contains a text.
func (e *environment) awaitAccess(t *testing.T, text string) {
	t.Helper()
	seen := ""
	await.Described(t, "a request in the access log of the proxies", func() bool {
		seen = e.kubectl(demo).Do(t, "logs", "deployment/kedify-proxy", "--tail=20")
		return strings.Contains(seen, text)
	}, func() string { return seen })
}
