package gateway

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// testerRate is the number of requests per second of a guide's testers.
	testerRate = 25
	// installed is the number of consecutive responses after which an app counts as installed. If two Services have equal
	// weights and the proxy has no endpoints for one of them yet, that many in a row are practically impossible.
	installed = 20
)

// guide contains the names of a guide's objects, all in namespace default, and the requests to its app.
type guide struct {
	rollout, container string
	route              string
	stable, canary     string
	host, path         string
	colors             []string
	// rate is the number of requests per second. sample is the number of requests in the measurement of a step: a first
	// and a second sample must fit into the guide's pause.
	rate   float64
	sample int
	// header contains the headers of the guide's testers; nil if it has none.
	header map[string]string
}

// guideRun is a running guide.
type guideRun struct {
	guide
	environment
	proxy proxy

	// admin is the local address of the interface of the proxy's inspector.
	admin  kube.Latest[string]
	object kube.Latest[kube.Rollout]
	seen   kube.Latest[route]
	// all sends the requests of all users, testers those of the testers.
	all     *load.Client
	testers testers
	stalls  *stall.Detector
}

// startGuideRun watches the guide's objects, waits until its app is installed and responds, and starts the load, which
// runs until the test ends.
func startGuideRun(t *testing.T, w environment, p proxy, g guide) *guideRun {
	t.Helper()
	c := &guideRun{guide: g, environment: w, proxy: p, stalls: stall.Watch(t)}
	c.watch(t)
	c.awaitPromotion(t)
	// During its installation an app has no stable version yet. The guide's initial
	// weights may route to a Service without endpoints; that is not part of a canary.
	c.awaitEnd(t)
	c.awaitAnswers(t)
	if p.inspector != nil {
		c.inspect(t)
	}
	c.all = c.send(t, "everybody", c.rate, nil)
	if g.header != nil {
		c.testers.client = c.send(t, "testers", testerRate, g.header)
	}
	return c
}

// watch watches the guide's objects until the test ends.
func (c *guideRun) watch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	watches.Go(func() {
		kube.Watch(ctx, c.runner, &c.object, "kubectl", "get", "rollout", c.rollout, "-w", "-o", "json")
	})
	watches.Go(func() {
		kube.Watch(ctx, c.runner, &c.seen, "kubectl", "get", "httproute", c.route, "-w", "-o", "json")
	})
	t.Cleanup(func() { cancel(); watches.Wait() })
}

// awaitAnswers waits until the app also responds through the proxy.
func (c *guideRun) awaitAnswers(t *testing.T) {
	t.Helper()
	var answers int
	var probed error
	await.Described(t, fmt.Sprintf("%d answers in a row through the Gateway", installed), func() bool {
		if _, probed = load.Probe(t.Context(), c.target()); probed != nil {
			answers = 0
			return false
		}
		answers++
		return answers == installed
	}, func() string { return fmt.Sprintf("%d answers, then: %v", answers, probed) })
}

// mostClusterGaps is the maximum number of requests of a load that may match a rule of Envoy Gateway whose cluster does
// not exist yet. Envoy receives a rule and its cluster separately. For some milliseconds a worker may have only one of
// them, for any writer of the route. That was observed twice in all runs, on a busy machine: 1 of 2002 requests when a
// header route was removed, and 1 of 2021 when one was added. Envoy's own log must confirm it.
const mostClusterGaps = 1

// send starts a load, which runs until the test ends. None of its requests may fail, except mostClusterGaps. A request
// that this machine was too busy to send has failed, too.
func (c *guideRun) send(t *testing.T, name string, rate float64, header map[string]string) *load.Client {
	t.Helper()
	config := c.target()
	config.Rate, config.Header = rate, header
	// All requests of one timeout fit in flight: otherwise this client would fail first during a
	// stall.
	config.MaxInFlight = int(rate * config.Timeout.Seconds())
	client, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		totals, pinned := client.Stop()
		t.Logf("%s: %d requests, %d failed %v; started at most %s late", name, totals.Sent,
			totals.Failed, totals.Reasons, totals.Lag)
		gaps := min(totals.Reasons["HTTP status 503"], testbed.CountClusterNotFound(c.logs, c.host), mostClusterGaps)
		if gaps > 0 {
			t.Logf("%s: %d of them by Envoy Gateway, whose proxy had a rule and not its cluster", name, gaps)
		}
		if totals.Failed > gaps || totals.Sent == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d: %v", name, totals.Failed, totals.Sent, totals.Reasons)
		}
		for _, p := range pinned {
			if p.Lost != nil || p.Answered == 0 {
				t.Errorf("%s: the %s connection is lost after %d answers: %v", name, p.Kind, p.Answered, p.Lost)
			}
		}
	})
	return client
}

// target returns the configuration of the requests.
func (c *guideRun) target() load.Config {
	return load.Config{
		Address: c.addresses[c.proxy.service], Host: c.host, Path: c.path,
		Timeout: await.Patience(), MaxInFlight: 1, Colors: c.colors,
	}
}

// state describes the present state for a timeout message.
func (c *guideRun) state() string { return c.seen.Get().String() + "; " + c.object.Get().String() }

// setImage starts a canary with the guide's command.
func (c *guideRun) setImage(t *testing.T, image string) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "set", "image", c.rollout, c.container+"="+image)
}

// promote ends a pause.
func (c *guideRun) promote(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to pause", func() bool { return c.object.Get().Paused() }, c.state)
	c.do(t, "kubectl", "argo", "rollouts", "promote", c.rollout)
}

// abort aborts the canary.
func (c *guideRun) abort(t *testing.T) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "abort", c.rollout)
	await.Described(t, "the Rollout to be aborted", func() bool { return c.object.Get().Status.Abort }, c.state)
}

// awaitWeight waits until the route has the canary's weight, is labeled as in progress, and is accepted by the
// implementation. It returns the time when the acceptance arrived.
func (c *guideRun) awaitWeight(t *testing.T, weight int) time.Time {
	t.Helper()
	await.Described(t, fmt.Sprintf("weights %d/%d, marked and accepted", 100-weight, weight),
		func() bool { return c.hasWeight(weight) && c.seen.Get().isAccepted() && c.seen.Get().isInProgress() }, c.state)
	return c.seen.Get().received
}

// hasWeight reports whether the route has the weight for the canary.
func (c *guideRun) hasWeight(weight int) bool {
	weights, ok := c.seen.Get().weights(c.stable, c.canary)
	return ok && weights == [2]int{100 - weight, weight}
}

// awaitEnd waits until the canary has ended, promoted or aborted: the weights are 100/0, the label is gone, and the
// route has only the guide's rules. It returns the time of that.
func (c *guideRun) awaitEnd(t *testing.T) time.Time {
	t.Helper()
	await.Described(t, "weights 100/0 in the guide's one rule, without a mark", func() bool {
		seen := c.seen.Get()
		return c.hasWeight(0) && seen.isNotInProgress() && len(seen.Spec.Rules) == 1 && seen.isAccepted()
	}, c.state)
	return time.Now()
}

// awaitPromotion waits until the Rollout's canary has become the stable version.
func (c *guideRun) awaitPromotion(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to be Healthy", func() bool { return c.object.Get().Healthy() }, c.state)
}

// weightChanges returns the Rollout's TrafficWeightUpdated Events from the controller's log, oldest first. It omits
// those without a weight, which report only new Pods.
func (c *guideRun) weightChanges(t *testing.T) []string {
	t.Helper()
	logged := c.do(t, "kubectl", "-n", "argo-rollouts", "logs", "deploy/argo-rollouts", "-c", "argo-rollouts", "--tail=-1")
	pattern := regexp.MustCompile(regexp.QuoteMeta(c.uid(t)) + `.* Traffic weight updated ([^"]+)"`)
	var changes []string
	for _, match := range pattern.FindAllStringSubmatch(logged, -1) {
		changes = append(changes, match[1])
	}
	return changes
}

// storedChanges counts the same Events in the cluster. A Kubernetes client stores the first 25 Events of an object, and
// then one every five minutes.
func (c *guideRun) storedChanges(t *testing.T) int {
	t.Helper()
	out := c.do(t, "kubectl", "get", "events", "--field-selector",
		"reason=TrafficWeightUpdated,involvedObject.uid="+c.uid(t), "-o", "name")
	return strings.Count(out, "\n")
}

// uid returns the UID, which differs from that of a deleted Rollout with the same name.
func (c *guideRun) uid(t *testing.T) string {
	t.Helper()
	return c.do(t, "kubectl", "get", "rollout", c.rollout, "-o", "jsonpath={.metadata.uid}")
}
