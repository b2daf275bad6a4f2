package autoscaling

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// watched is how long replicas are watched after a kill: about ten syncs of the HorizontalPodAutoscaler, and the
	// restart time of a killed container.
	watched = 25 * time.Second
	// lookLimit is the time limit of one read while the API server may be unavailable.
	lookLimit = 5 * time.Second
	// steadyRate requires 5 replicas, the number for any rate from 22.5 to 27.5.
	steadyRate = 25
)

// programs returns the programs on the path of a metric from a request to the HorizontalPodAutoscaler. All processes of
// one are killed at once. Envoy is last, because only its end may affect requests.
func programs() []string {
	return []string{"scaler", "interceptor", "agent", "keda", "keda-adapter", "kube-apiserver", "envoy"}
}

// TestKillsScaleNothingIn kills each component on the path of the metrics with kill -9 under load. A metric that is too
// low would remove replicas immediately. No replica may be removed, and no request may fail except by the end of the
// proxy itself.
func TestKillsScaleNothingIn(t *testing.T) {
	g, _ := launch(t)
	node, err := inside.Open(g.Node)
	if err != nil {
		t.Fatal(err)
	}
	g.removeScaleInDelay(t)
	client := g.send(t, steadyRate)
	defer client.Stop()
	g.awaitWanted(t, steadyRate)
	for _, part := range programs() {
		t.Run(part, func(t *testing.T) { g.checkSurvives(t, node, client, part) })
	}
}

// checkSurvives kills all processes of a program and watches the replicas until KEDA has metrics again.
func (g guide) checkSurvives(t *testing.T, node *inside.Cluster, client *load.Client, program string) {
	t.Helper()
	before, had := client.Totals(), g.count(t)
	killed := kill(t, node, program)
	began, least := time.Now(), had
	unknown := false
	for time.Since(began) < watched {
		if replicas, err := strconv.Atoi(g.read(t, "rollout/"+testbed.App, "{.spec.replicas}")); err == nil {
			least = min(least, replicas)
		}
		unknown = unknown || g.read(t, "hpa", hpaActive) == "False"
	}
	if least < had {
		t.Errorf("%d of %d replicas were left", least, had)
	}
	await.Described(t, "KEDA has figures again", func() bool {
		return g.read(t, "scaledobject/"+testbed.App, scaledObjectReady) == "True" && g.read(t, "hpa", hpaActive) == "True"
	}, func() string { return g.read(t, "scaledobject/"+testbed.App, "{.status.conditions}") })
	after := client.Totals()
	failed := after.Failed - before.Failed
	if failed > 0 && program != "envoy" {
		invariant.Broken(t, invariant.FailedRequests, "%d when %s was killed: %v", failed, program, after.Reasons)
	}
	t.Logf("%d × %s killed: at least %d of %d replicas; the figure was missed: %v; figures again after %.0f s; %d of %d "+
		"requests failed",
		killed, program, least, had, unknown, time.Since(began).Seconds(), failed, after.Sent-before.Sent)
}

// Conditions of objects, as JSON paths.
const (
	hpaActive         = `{.items[0].status.conditions[?(@.type=="ScalingActive")].status}`
	scaledObjectReady = `{.status.conditions[?(@.type=="Ready")].status}`
)

// kill kills all processes of a program and returns their number.
func kill(t *testing.T, node *inside.Cluster, program string) int {
	t.Helper()
	processes, err := node.Find(program)
	if err != nil || len(processes) == 0 {
		t.Fatalf("%d processes of %s, %v", len(processes), program, err)
	}
	var killing sync.WaitGroup
	for _, process := range processes {
		killing.Go(func() {
			if _, _, err := process.Kill(t.Context()); err != nil {
				t.Errorf("kill %s: %v", program, err)
			}
		})
	}
	killing.Wait()
	return len(processes)
}

// read reads a field of an object. It returns an empty string while the API server does not respond.
func (g guide) read(t *testing.T, object, path string) string {
	t.Helper()
	//testbounds:allow the caller looks again until Patience ends
	ctx, cancel := context.WithTimeout(t.Context(), lookLimit)
	defer cancel()
	out, err := g.Run(ctx, "kubectl", "get", "-n", namespace, object, "-o", "jsonpath="+path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}
