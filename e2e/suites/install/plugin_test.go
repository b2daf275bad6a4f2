package install

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// heading is the heading of the kubectl plugin's commands in docs/how-to/install.md.
	heading = "By the kubectl plugin"
	// mostCommands is the maximum number of commands from Argo Rollouts and KEDA to a wake from zero and a measured split.
	mostCommands = 6
	// asleep is how long the application stays without replicas before the request that wakes it: KEDA polls once when the
	// pollingInterval changes.
	asleep = 15 * time.Second
	// unpolled disables KEDA's polls, so that only the push wakes the application.
	unpolled = `kubectl -n rollouts-demo patch scaledobject rollouts-demo --type merge --patch '{"spec":{"pollingInterval":86400}}'`
	// wired reads the backend of the example's Ingress, and whether there is a restore record.
	wired = `kubectl -n rollouts-demo get ingress rollouts-demo -o jsonpath='{.spec.rules[*].http.paths[*].backend.service.name} {.metadata.annotations}'`
)

// installByPlugin runs the page's commands. The plugin's release is in the cluster and not at its default location, so
// the command gets an additional flag.
func (w *environment) installByPlugin(t *testing.T) {
	t.Helper()
	w.spent, w.ran = 0, 0
	began := time.Now()
	source := "http-canary install --from=" + serverURL +
		" --checksums=release/checksums.txt --image-tag=" + w.release + " "
	output := w.runScript(t, strings.Replace(w.page.block(t, heading, "sh", 0), "http-canary install ", source, 1))
	t.Log(output)
	if !strings.Contains(output, "No problems found.") {
		t.Error("what is installed is not sound")
	}
	w.until(t, "the Ingress to be wired", wired, "kedify-proxy ")
	// The controller has just restarted: without this wait there might be no replica yet, instead of none any more.
	w.until(t, "the first replicas",
		`kubectl -n rollouts-demo get rollout rollouts-demo -o jsonpath='available={.status.availableReplicas}.'`,
		"available=2.")
	w.runScript(t, w.page.block(t, heading, "sh", 2))
	w.until(t, "zero replicas", pods, noPods)
	w.awaitZero(t)
	latency := w.wake(t)
	w.runScript(t, w.page.block(t, heading, "sh", 1))
	if w.ran > mostCommands {
		t.Errorf("the page has %d commands up to here, not at most %d", w.ran, mostCommands)
	}
	w.measure(t, began)
	t.Logf("the first request to zero replicas was answered after %v, without a poll", latency)
}

// pods shows the Pods of the application; noPods is its output if there are none.
const pods, noPods = "kubectl -n rollouts-demo get pods -l app=rollouts-demo 2>&1", "No resources found"

// awaitZero disables KEDA's polls, and checks that the application stays without replicas for a while.
func (w *environment) awaitZero(t *testing.T) {
	t.Helper()
	if output := w.tryScript(t.Context(), unpolled); !strings.Contains(output, "patched") {
		t.Fatalf("the ScaledObject is not patched: %s", output)
	}
	for began := time.Now(); time.Since(began) < asleep; {
		if output := w.tryScript(t.Context(), pods); !strings.Contains(output, noPods) {
			t.Fatalf("without a request there are\n%s", output)
		}
	}
}

// wake sends one request to an application without replicas, and returns its latency.
func (w *environment) wake(t *testing.T) time.Duration {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+w.Addresses[provider.ProxyAddress]+"/color", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = testbed.Host
	began := time.Now()
	client := &http.Client{Timeout: await.Patience()}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "blue") {
		t.Fatalf("the answer to the request that wakes is %s, %q, %v", response.Status, body, err)
	}
	return time.Since(began)
}

// uninstallByPlugin uninstalls everything. The first attempt is rejected because the application exists.
func (w *environment) uninstallByPlugin(t *testing.T) {
	t.Helper()
	refused := w.tryScript(t.Context(), "PATH="+w.folder+"/bin:$PATH kubectl http-canary uninstall 2>&1")
	if !strings.Contains(refused, "Rollout rollouts-demo/rollouts-demo uses router") {
		t.Errorf("the application is in use, but the output is\n%s", refused)
	}
	began := time.Now()
	t.Log(w.runScript(t, w.page.block(t, "With the kubectl plugin", "sh", 0)))
	t.Logf("uninstalled in %.0f s", time.Since(began).Seconds())
	if after := w.runScript(t, wired); !strings.HasPrefix(after, "rollouts-demo-stable ") ||
		strings.Contains(after, "autowire") {
		t.Errorf("the Ingress is not as it was: %s", after)
	}
	w.runScript(t, "kubectl delete namespace rollouts-demo")
	var controller struct {
		Spec struct {
			Template struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(w.runScript(t, "kubectl -n argo-rollouts get deployment argo-rollouts -o json")),
		&controller); err != nil {
		t.Fatal(err)
	}
	if sum, ok := controller.Spec.Template.Metadata.Annotations["http.kedify.io/plugins-sha256"]; ok {
		t.Errorf("the controller's Pods still have %s", sum)
	}
	w.checkNothingRemains(t)
}
