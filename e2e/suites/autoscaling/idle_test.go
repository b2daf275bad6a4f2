package autoscaling

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// idle is the time without requests: ten times the cooldown of the ScaledObject here, about as many polls, and thirty
	// syncs of the HorizontalPodAutoscaler.
	idle = 60 * time.Second
	// idling changes the guide's ScaledObject to one without minReplicaCount, for which KEDA uses 0, and with short times.
	idling = `{"spec":{"minReplicaCount":null,"pollingInterval":5,"cooldownPeriod":5}}`
	// byTime continues to the end without a promotion: the canary can only be tested in these seconds.
	byTime = `[{"setWeight":20},{"pause":{"duration":"10s"}},{"setWeight":60},{"pause":{"duration":"10s"}}]`
)

// TestAnIdleCanaryKeepsAPodOfEachSide runs a canary, without requests, of a workload that may scale to zero. The
// workload keeps a Pod of each side during the canary. A Rollout without replicas also completes its timed steps. So a
// new version that is set at zero wakes the workload, and is promoted only after it had a Pod.
func TestAnIdleCanaryKeepsAPodOfEachSide(t *testing.T) {
	g, _ := launch(t)
	g.removeScaleInDelay(t)
	g.Do(t, "patch", "-n", namespace, "scaledobject/"+testbed.App, "--type=merge", "-p", idling)

	g.argo(t, "set", "image", testbed.App, testbed.App+"=argoproj/rollouts-demo:yellow")
	g.awaitRollout(t, "a Pod of each side at 20 %", hasOneOfEach)
	weights := g.weights(t)
	g.checkStays(t, "a Pod of each side",
		func(r kube.Rollout) bool { return hasOneOfEach(r) && r.Paused() && g.weights(t) == weights })

	g.argo(t, "abort", testbed.App)
	g.awaitRollout(t, "no replica after the canary",
		func(r kube.Rollout) bool { return r.Spec.Replicas == 0 && r.Status.Replicas == 0 })
	stable := g.rollout(t).Status.StableRS
	// A single patch: new steps alone would restart the aborted canary.
	g.Do(t, "patch", "-n", namespace, "rollout/"+testbed.App, "--type=json", "-p", `[
		{"op": "replace", "path": "/spec/strategy/canary/steps", "value": `+byTime+`},
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "argoproj/rollouts-demo:green"}]`)
	tested := false
	g.awaitRollout(t, "a new version is promoted", func(r kube.Rollout) bool {
		tested = tested || hasOneOfEach(r)
		return r.Status.StableRS != stable
	})
	if !tested {
		t.Error("a version was promoted that has never had a ready Pod next to a stable one")
	}
	g.awaitRollout(t, "no replica of the new version",
		func(r kube.Rollout) bool { return r.Spec.Replicas == 0 && r.Status.Replicas == 0 })
}

// hasOneOfEach reports whether a canary is in progress with one ready Pod of each side.
func hasOneOfEach(r kube.Rollout) bool {
	stable, canary := r.Sides()
	return stable == 1 && canary == 1 && r.Status.ReadyReplicas == 2 && r.Spec.Replicas == 1
}

// awaitRollout waits for a state of the Rollout and logs how long that took.
func (g guide) awaitRollout(t *testing.T, what string, isReached func(kube.Rollout) bool) {
	t.Helper()
	began, seen := time.Now(), kube.Rollout{}
	await.Described(t, what, func() bool {
		seen = g.rollout(t)
		return isReached(seen)
	}, func() string { return fmt.Sprint(seen) })
	t.Logf("%s after %.1f s: %v", what, time.Since(began).Seconds(), seen)
}

// checkStays checks that a state of the Rollout lasts while there are no requests.
func (g guide) checkStays(t *testing.T, what string, isExpected func(kube.Rollout) bool) {
	t.Helper()
	//testbounds:allow how long the state must stay
	ctx, cancel := context.WithTimeout(t.Context(), idle)
	defer cancel()
	for ctx.Err() == nil {
		if seen := g.rollout(t); !isExpected(seen) {
			stable, canary := seen.Sides()
			t.Fatalf("%s: not any more: %v, %d stable and %d canary Pods", what, seen, stable, canary)
		}
	}
	t.Logf("%s for %s", what, idle)
}

// rollout reads the Rollout.
func (g guide) rollout(t *testing.T) kube.Rollout {
	t.Helper()
	var r kube.Rollout
	if err := json.Unmarshal([]byte(g.Do(t, "get", "-n", namespace, "rollout/"+testbed.App, "-o", "json")),
		&r); err != nil {
		t.Fatal(fmt.Errorf("read the Rollout: %w", err))
	}
	return r
}

// weights returns the annotation with the weights; empty if there is none.
func (g guide) weights(t *testing.T) string {
	t.Helper()
	return g.Do(t, "get", "-n", namespace, "httpscaledobject/"+testbed.App, "-o",
		`jsonpath={.metadata.annotations.http\.kedify\.io/weighted-backends}`)
}
