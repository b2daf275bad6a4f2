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
	// installed is the number of answers in a row after which an app counts as
	// installed: where two Services have equal weights and one of them has no
	// endpoints for the proxy yet, so many in a row do not come.
	installed = 20
)

// guide names a guide's objects, all in namespace default, and how its app is
// asked.
type guide struct {
	rollout, container  string
	route               string
	stable, canary      string
	gateway, host, path string
	colors              []string
	// rate is the number of requests per second, sample how many a step is judged
	// by: a first sample and a fresh one must fit into the guide's pause.
	rate   float64
	sample int
	// header is what the guide's testers send; nil if it has none.
	header map[string]string
}

// guideRun is a guide under way.
type guideRun struct {
	guide
	environment

	object kube.Latest[kube.Rollout]
	seen   kube.Latest[route]
	// all are the requests of everybody, testers those of the testers.
	all     *load.Client
	testers testers
	stalls  *stall.Detector
}

// begin watches the guide's objects, waits until its app is installed and
// answers, and starts the load, which runs until the test ends.
func begin(t *testing.T, w environment, g guide) *guideRun {
	t.Helper()
	c := &guideRun{guide: g, environment: w, stalls: stall.Watch(t)}
	c.watch(t)
	c.awaitPromotion(t)
	// An app that is being installed has no version in service yet: what the
	// guide's own weights send to a Service without endpoints is no canary's.
	c.awaitEnd(t)
	c.awaitAnswers(t)
	c.all = c.send(t, "everybody", c.rate, nil)
	if g.header != nil {
		c.testers.client = c.send(t, "testers", testerRate, g.header)
	}
	return c
}

// watch keeps the guide's objects in view until the test ends.
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

// awaitAnswers waits until the app is installed for the proxy, too.
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

// mostClusterGaps is how many requests of a load may meet a rule of Envoy Gateway's whose cluster is not there. A
// rule and its cluster travel apart: for some milliseconds a worker of Envoy may have the one and
// not the other, whoever wrote the route. That was seen twice in all walks, 1 of 2002 requests
// as a header route went and 1 of 2021 as one came, on a busy machine. Envoy's own log has to say so.
const mostClusterGaps = 1

// send starts a load, which runs until the test ends. Not one of its requests may
// fail, also not because this machine was too busy to send it, but for mostClusterGaps.
func (c *guideRun) send(t *testing.T, who string, rate float64, header map[string]string) *load.Client {
	t.Helper()
	config := c.target()
	config.Rate, config.Header = rate, header
	// As many as come in the time that one may take: else this client would be the first to fail where everything stands
	// still.
	config.MaxInFlight = int(rate * config.Timeout.Seconds())
	client, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		totals, pinned := client.Stop()
		t.Logf("%s: %d requests, %d failed %v; started at most %s late", who, totals.Sent,
			totals.Failed, totals.Reasons, totals.Lag)
		gaps := min(totals.Reasons["HTTP status 503"], testbed.CountClusterNotFound(c.logs, c.host), mostClusterGaps)
		if gaps > 0 {
			t.Logf("%s: %d of them by Envoy Gateway, whose proxy had a rule and not its cluster", who, gaps)
		}
		if totals.Failed > gaps || totals.Sent == 0 {
			invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d: %v", who, totals.Failed, totals.Sent, totals.Reasons)
		}
		for _, p := range pinned {
			if p.Lost != nil || p.Answered == 0 {
				t.Errorf("%s: the %s connection is lost after %d answers: %v", who, p.Kind, p.Answered, p.Lost)
			}
		}
	})
	return client
}

// target says where requests go.
func (c *guideRun) target() load.Config {
	return load.Config{
		Address: c.addresses[c.gateway], Host: c.host, Path: c.path,
		Timeout: await.Patience(), MaxInFlight: 1, Colors: c.colors,
	}
}

// state is what there is instead of what was waited for.
func (c *guideRun) state() string { return c.seen.Get().String() + "; " + c.object.Get().String() }

// setImage starts a canary, by the guide's command.
func (c *guideRun) setImage(t *testing.T, image string) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "set", "image", c.rollout, c.container+"="+image)
}

// promote goes on from a pause.
func (c *guideRun) promote(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to pause", func() bool { return c.object.Get().Paused() }, c.state)
	c.do(t, "kubectl", "argo", "rollouts", "promote", c.rollout)
}

// abort goes back.
func (c *guideRun) abort(t *testing.T) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "abort", c.rollout)
	await.Described(t, "the Rollout to be aborted", func() bool { return c.object.Get().Status.Abort }, c.state)
}

// awaitWeight waits until the route has the weight for the canary and the rest for
// stable, is marked as in progress, and was taken by the implementation. It
// returns when that was seen.
func (c *guideRun) awaitWeight(t *testing.T, weight int) time.Time {
	t.Helper()
	await.Described(t, fmt.Sprintf("weights %d/%d, marked and accepted", 100-weight, weight),
		func() bool { return c.at(weight) && c.seen.Get().isAccepted() && c.seen.Get().isInProgress() }, c.state)
	return time.Now()
}

// at reports whether the route has the weight for the canary.
func (c *guideRun) at(weight int) bool {
	weights, found := c.seen.Get().weights(c.stable, c.canary)
	return found && weights == [2]int{100 - weight, weight}
}

// awaitEnd waits until the canary is over, at either end: 100/0, without a mark
// and without any rule that the guide does not have. It returns when that was
// seen.
func (c *guideRun) awaitEnd(t *testing.T) time.Time {
	t.Helper()
	await.Described(t, "weights 100/0 in the guide's one rule, without a mark", func() bool {
		seen := c.seen.Get()
		return c.at(0) && seen.isNotInProgress() && len(seen.Spec.Rules) == 1 && seen.isAccepted()
	}, c.state)
	return time.Now()
}

// awaitPromotion waits until the Rollout has made its canary the stable version.
func (c *guideRun) awaitPromotion(t *testing.T) {
	t.Helper()
	await.Described(t, "the Rollout to be Healthy", func() bool { return c.object.Get().Healthy() }, c.state)
}

// weightChanges are the Rollout's TrafficWeightUpdated events, oldest first, as
// the controller has logged them: without those that name no weight, because
// only the pods that have the weights are others.
func (c *guideRun) weightChanges(t *testing.T) []string {
	t.Helper()
	logged := c.do(t, "kubectl", "-n", "argo-rollouts", "logs", "deploy/argo-rollouts", "-c", "argo-rollouts", "--tail=-1")
	pattern := regexp.MustCompile(regexp.QuoteMeta(c.uid(t)) + `.* Traffic weight updated ([^"]+)"`)
	var changes []string
	for _, found := range pattern.FindAllStringSubmatch(logged, -1) {
		changes = append(changes, found[1])
	}
	return changes
}

// storedChanges counts the same events as far as the cluster has them: a client
// of Kubernetes stores the first 25 events of an object, and then one every
// five minutes.
func (c *guideRun) storedChanges(t *testing.T) int {
	t.Helper()
	out := c.do(t, "kubectl", "get", "events", "--field-selector",
		"reason=TrafficWeightUpdated,involvedObject.uid="+c.uid(t), "-o", "name")
	return strings.Count(out, "\n")
}

// uid tells the Rollout from one of the same name that is gone.
func (c *guideRun) uid(t *testing.T) string {
	t.Helper()
	return c.do(t, "kubectl", "get", "rollout", c.rollout, "-o", "jsonpath={.metadata.uid}")
}
