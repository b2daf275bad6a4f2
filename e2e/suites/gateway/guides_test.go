package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// myAppImage is the image of the app of guide my-app, without its tag.
const myAppImage = "my-registry.example.com/my-app:"

// testMyApp runs the guide with the HTTPRoute my-app-route unchanged, with its real pauses. A second canary is aborted
// halfway, a third one has the lowest weight. All the time a Pod calls the Service of the stable side.
func testMyApp(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	w.apply(t, "my-app", p.manifest, "services", "httproute", "rollout")
	w.explainFailure(t, "rollout,httproute")
	c := startGuideRun(t, w, p, guide{
		rollout: "my-app", container: "app", route: "my-app-route", stable: "my-app-stable", canary: "my-app-canary",
		host: "api.example.com", path: "/my-app", colors: []string{"v1.0.0", "v1.1.0", "v1.2.0"},
		rate: 100, sample: 1000,
	})
	eastWest := c.callStable(t)
	c.checkAll(t, "v1.0.0", c.awaitEnd(t))
	c.checkPods(t, 4, 0)
	c.checkSelectors(t, false)

	c.promoteMyApp(t, eastWest)
	want := []string{
		"to 0", "from 0 to 5", "from 5 to 25", "from 25 to 50", "from 50 to 75",
		"from 75 to 100", "from 100 to 0",
	}
	if diff := cmp.Diff(want, c.weightChanges(t)); diff != "" {
		t.Errorf("TrafficWeightUpdated events (-want +got):\n%s", diff)
	}
	if c.storedChanges(t) == 0 {
		t.Error("the cluster has no TrafficWeightUpdated event")
	}

	c.setImage(t, myAppImage+"v1.2.0")
	c.awaitWeight(t, 5)
	c.promote(t)
	c.step(t, 25, "v1.2.0")
	c.abort(t)
	c.checkAll(t, "v1.1.0", c.awaitEnd(t))
	c.measureLowestWeight(t)
	eastWest.Check(t.Context(), t, "v1.1.0")
	c.checkUpdates(t)
}

// promoteMyApp runs the guide's canary to its promotion.
func (c *guideRun) promoteMyApp(t *testing.T, eastWest *testbed.Caller) {
	t.Helper()
	c.setImage(t, myAppImage+"v1.1.0")
	c.step(t, 5, "v1.1.0")
	c.checkPods(t, 4, 1)
	c.checkSelectors(t, true)
	eastWest.Check(t.Context(), t, "v1.0.0")
	c.promote(t)
	for _, s := range []struct{ weight, canaryPods int }{{25, 1}, {50, 2}, {75, 3}} {
		c.awaitWeight(t, s.weight)
		c.checkPods(t, 4, s.canaryPods)
		c.step(t, s.weight, "v1.1.0")
	}
	c.awaitPromotion(t)
	c.checkAll(t, "v1.1.0", c.awaitEnd(t))
	c.checkSelectors(t, false)
	eastWest.CheckPromotion(t.Context(), t, "v1.0.0", "v1.1.0")
}

// The sample at the lowest weight of a step, in percent: 30 requests are the canary's, with a standard deviation of 5.4.
const lowestWeight, lowestSample = 1, 3000

// measureLowestWeight runs a canary with lowestWeight, and aborts it.
func (c *guideRun) measureLowestWeight(t *testing.T) {
	t.Helper()
	// One patch: other steps alone would start the aborted canary again.
	c.do(t, "kubectl", "patch", "rollout", c.rollout, "--type=json", "-p", `[
		{"op": "replace", "path": "/spec/strategy/canary/steps", "value": [{"setWeight": 1}, {"pause": {}}]},
		{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "`+myAppImage+`v1.0.0"}]`)
	usual := c.sample
	c.sample = lowestSample
	c.step(t, lowestWeight, "v1.0.0")
	c.sample = usual
	c.abort(t)
	c.checkAll(t, "v1.1.0", c.awaitEnd(t))
}

// testBookinfo runs the guide with the HTTPRoute bookinfo-reviews, which omits the weights. A header selects its canary
// before the canary has a weight.
func testBookinfo(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	w.apply(t, "bookinfo", p.manifest, "services", "httproute", "rollout")
	w.explainFailure(t, "rollout,httproute")
	image := func(version string) string { return "docker.io/istio/examples-bookinfo-reviews-" + version + ":1.20.2" }
	c := startGuideRun(t, w, p, guide{
		rollout: "reviews-rollout", container: "reviews", route: "bookinfo-reviews",
		stable: "reviews-stable", canary: "reviews-canary",
		host: "www.bookinfo.com", path: "/reviews/0", colors: []string{"v1", "v2", "v3"},
		// A first and a second sample fit into the guide's pauses of 10 s.
		rate: 150, sample: 600, header: map[string]string{"role": "qa"},
	})
	c.checkAll(t, "v1", c.awaitEnd(t))
	c.asQA(t, "v1")
	c.checkSelectors(t, false)
	c.checkShown(t, "Status: ✔ Healthy", "Step: 12/12", "SetWeight: 100", "ActualWeight: 100", "Desired: 1",
		"Current: 1")

	c.setImage(t, image("v2"))
	c.turnQA(t, "v1", "v2", c.pausedForQA(t))
	c.split(t, 0, "v2") // all other users
	c.checkPods(t, 1, 1)
	c.checkSelectors(t, true)
	c.checkShown(t, "Status: ॥ Paused", "Message: CanaryPauseStep", "Step: 2/12", "SetWeight: 0", "Desired: 1",
		"Current: 2")
	c.promote(t)
	for _, weight := range []int{10, 20, 40, 60} {
		c.step(t, weight, "v2")
		c.asQA(t, "v2")
	}
	c.awaitPromotion(t)
	// The ReplicaSet of v1 is scaled down after a delay.
	c.checkShown(t, "Status: ✔ Healthy", "Step: 12/12", image("v2")+" (stable)", "delay:")
	c.checkAll(t, "v2", c.awaitEnd(t))
	c.asQA(t, "v2")

	c.setImage(t, image("v3"))
	c.turnQA(t, "v2", "v3", c.pausedForQA(t))
	c.promote(t)
	c.step(t, 10, "v3")
	c.asQA(t, "v3")
	c.abort(t)
	over := c.awaitEnd(t)
	// The header route is removed before the weights. In between, testers are routed by the weights.
	c.turnQA(t, "v3", "v2", over)
	c.checkAll(t, "v2", over)
	c.asQA(t, "v2")
	c.checkUpdates(t)
}

// pausedForQA waits until the canary runs without a weight and is reachable by the header. It returns the time of that.
func (c *guideRun) pausedForQA(t *testing.T) time.Time {
	t.Helper()
	await.Described(t, "a header route behind the weights 100/0, marked and accepted", func() bool {
		seen := c.seen.Get()
		return c.object.Get().Paused() && c.hasWeight(0) && seen.isInProgress() && seen.isAccepted() &&
			len(seen.Spec.Rules) == 2 &&
			seen.Spec.Rules[1].routesTo(c.canary, c.header)
	}, c.state)
	return time.Now()
}

// A sample at lowestWeight differs from one without a weight, and from one at twice the weight.
func TestLowestWeight(t *testing.T) {
	t.Parallel()
	for hits, want := range map[int]stats.Verdict{
		0: stats.Off, 11: stats.Agrees, 30: stats.Agrees, 49: stats.Agrees, 50: stats.Off, 60: stats.Off,
	} {
		share := float64(lowestWeight) / 100
		if got := stats.DefaultRule().EvaluateSecond(stats.Split{Hits: hits, Total: lowestSample}, share); got != want {
			t.Errorf("%d of %d requests: verdict %d, want %d", hits, lowestSample, got, want)
		}
	}
}
