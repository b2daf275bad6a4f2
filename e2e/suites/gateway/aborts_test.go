package gateway

import (
	"fmt"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// abortsEach is the number of measured aborts with each setting of an implementation.
const abortsEach = 8

// testAborts measures how long after an abort the canary still receives requests.
func testAborts(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	c := startAborts(t, w, p)
	c.measureAborts(t, "default settings")
	c.checkUpdates(t)
}

// startAborts starts guide my-app with canaries that pause at 50 %.
func startAborts(t *testing.T, w environment, p proxy) *guideRun {
	t.Helper()
	w.apply(t, "my-app", p.manifest, "services", "httproute", "rollout")
	w.explainFailure(t, "rollout,httproute")
	w.do(t, "kubectl", "patch", "rollout", "my-app", "--type=merge",
		"-p", `{"spec":{"strategy":{"canary":{"steps":[{"setWeight":50},{"pause":{}}]}}}}`)
	return startGuideRun(t, w, p, guide{
		rollout: "my-app", container: "app", route: "my-app-route", stable: "my-app-stable", canary: "my-app-canary",
		host: "api.example.com", path: "/my-app", colors: []string{"v1.0.0", "v1.1.0", "v1.2.0"},
		rate: 100, sample: 200,
	})
}

// measureAborts aborts abortsEach canaries.
func (c *guideRun) measureAborts(t *testing.T, setting string) {
	t.Helper()
	for i := range abortsEach {
		// Alternately: an image that does not change starts no canary.
		version := []string{"v1.1.0", "v1.2.0"}[i%2]
		c.measureAbort(t, fmt.Sprintf("%s, abort %d", setting, i+1), version)
	}
}

// measureAbort aborts a canary at 50 %, and logs when the canary received its last request.
func (c *guideRun) measureAbort(t *testing.T, name, version string) {
	t.Helper()
	c.setImage(t, "my-registry.example.com/my-app:"+version)
	applied := c.applied(t, 50, c.awaitWeight(t, 50))
	await.Described(t, "the Rollout to pause", func() bool { return c.object.Get().Paused() }, c.state)
	c.split(t, 50, version)

	c.abort(t)
	await.Described(t, "the weight 0, accepted",
		func() bool { return c.hasWeight(0) && c.seen.Get().isAccepted() }, c.state)
	reported := c.seen.Get().received
	window := c.checkAllFrom(t, c.all, c.sample, "v1.0.0")
	first := c.all.Next(reported)
	turned := measureTurnover(c.all.Ended(first, c.all.Begun()-first), "v1.0.0", reported)
	t.Logf("%s: weight 50 applied %s, weight 0 %s; requests: %s; %s", name, applied, c.applied(t, 0, reported), turned,
		c.quality(window))
	c.checkNoneFailed(t)
}
