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
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

const (
	// patience bounds how long anything may take beside a guide's own pauses.
	patience = 60 * time.Second
	// requestTimeout bounds each request.
	requestTimeout = 5 * time.Second
	// settle is the time between the implementation's word that it has taken a
	// route and the first request that counts: its proxies follow.
	settle = time.Second
	// settleEnd is the same for the ends of a canary, where also the stable
	// Service changes its pods.
	settleEnd = 3 * time.Second
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
	// rate is the number of requests per second, sample how many a step is
	// judged by: a first sample and a fresh one must fit into the guide's pause.
	rate   float64
	sample int
}

// walk is a guide under way.
type walk struct {
	guide
	world

	object kube.Latest[kube.Rollout]
	seen   kube.Latest[route]
	client *load.Client
}

// begin watches the guide's objects, waits until its app is installed and
// answers, and starts the load, which runs until the test ends. There must be
// no failed request.
func begin(t *testing.T, w world, g guide) *walk {
	t.Helper()
	c := &walk{guide: g, world: w}
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	watches.Go(func() {
		kube.Watch(ctx, w.runner, &c.object, "kubectl", "get", "rollout", g.rollout, "-w", "-o", "json")
	})
	watches.Go(func() {
		kube.Watch(ctx, w.runner, &c.seen, "kubectl", "get", "httproute", g.route, "-w", "-o", "json")
	})
	t.Cleanup(func() { cancel(); watches.Wait() })
	await(t, "the Rollout to be Healthy", patience, func() bool { return c.object.Get().Healthy() }, func() string { return c.object.Get().String() })
	// An app that is being installed has no version in service yet: what the
	// guide's own weights send to a Service without endpoints is no canary's.
	c.rests(t)
	var answers int
	var probed error
	await(t, fmt.Sprintf("%d answers in a row through the Gateway", installed), patience, func() bool {
		if _, probed = load.Probe(ctx, c.target()); probed != nil {
			answers = 0
			return false
		}
		answers++
		return answers == installed
	}, func() string { return fmt.Sprintf("%d answers, then: %v", answers, probed) })
	client, err := load.Start(ctx, c.target())
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(func() {
		totals, pinned := client.Stop()
		t.Logf("%d requests, %d failed %v; started at most %s late", totals.Sent, totals.Failed, totals.Reasons, totals.Lag)
		if totals.Failed > 0 || totals.Sent == 0 {
			t.Errorf("%d of %d requests failed: %v", totals.Failed, totals.Sent, totals.Reasons)
		}
		for _, p := range pinned {
			if p.Lost != nil || p.Answered == 0 {
				t.Errorf("the %s connection is lost after %d answers: %v", p.Kind, p.Answered, p.Lost)
			}
		}
	})
	return c
}

// target says where requests go.
func (c *walk) target() load.Config {
	return load.Config{
		Address: c.addresses[c.gateway], Host: c.host, Path: c.path, Rate: c.rate,
		Timeout: requestTimeout, MaxInFlight: 500, Colors: c.colors,
	}
}

// setImage starts a canary, by the guide's command.
func (c *walk) setImage(t *testing.T, image string) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "set", "image", c.rollout, c.container+"="+image)
}

// promote goes on from a pause.
func (c *walk) promote(t *testing.T) {
	t.Helper()
	await(t, "the Rollout to pause", patience, func() bool { return c.object.Get().Paused() }, func() string { return c.object.Get().String() })
	c.do(t, "kubectl", "argo", "rollouts", "promote", c.rollout)
}

// abort goes back.
func (c *walk) abort(t *testing.T) {
	t.Helper()
	c.do(t, "kubectl", "argo", "rollouts", "abort", c.rollout)
	await(t, "the Rollout to be aborted", patience, func() bool { return c.object.Get().Status.Abort }, func() string { return c.object.Get().String() })
}

// reaches waits until the route has the weight for the canary and the rest for
// stable, is marked as in progress, and was taken by the implementation.
func (c *walk) reaches(t *testing.T, weight int) {
	t.Helper()
	await(t, fmt.Sprintf("weights %d/%d, marked and accepted", 100-weight, weight), patience,
		func() bool { return c.at(weight) && c.seen.Get().accepted() && c.marked() },
		func() string { return c.seen.Get().String() + "; " + c.object.Get().String() })
}

// at says whether the route has the weight for the canary.
func (c *walk) at(weight int) bool {
	weights, found := c.seen.Get().weights(c.stable, c.canary)
	return found && weights == [2]int{100 - weight, weight}
}

// marked says whether the route is labelled as part of a canary.
func (c *walk) marked() bool { return c.seen.Get().Metadata.Labels[inProgress] == "in-progress" }

// rests waits until the canary is over, at either end: 100/0, without a mark
// and without any rule that the guide does not have.
func (c *walk) rests(t *testing.T) {
	t.Helper()
	await(t, "weights 100/0 in the guide's one rule, without a mark", patience,
		func() bool {
			seen := c.seen.Get()
			_, label := seen.Metadata.Labels[inProgress]
			return c.at(0) && !label && len(seen.Spec.Rules) == 1 && seen.accepted()
		},
		func() string { return c.seen.Get().String() + "; " + c.object.Get().String() })
}

// promoted waits until the Rollout has made its canary the stable version.
func (c *walk) promoted(t *testing.T) {
	t.Helper()
	await(t, "the Rollout to be Healthy", patience, func() bool { return c.object.Get().Healthy() }, func() string { return c.object.Get().String() })
}

// split checks that the color's share of the requests is the weight, and that
// no request has failed so far. While the sample is taken the weight must stand.
func (c *walk) split(t *testing.T, weight int, color string) {
	t.Helper()
	c.share(t, float64(weight)/100, color, weight, settle)
}

// everything checks, after the end of a canary, that the color answers all.
func (c *walk) everything(t *testing.T, color string) {
	t.Helper()
	c.share(t, 1, color, 0, settleEnd)
}

func (c *walk) share(t *testing.T, asked float64, color string, weight int, after time.Duration) {
	t.Helper()
	rule := stats.DefaultRule()
	measured, window := c.measure(t, c.client.Next(time.Now().Add(after)), c.sample, color)
	verdict := rule.Judge(measured, asked)
	if verdict == stats.Unsure {
		measured, window = c.measure(t, c.client.Next(time.Now()), c.sample, color)
		verdict = rule.JudgeFresh(measured, asked)
	}
	if !c.at(weight) {
		t.Fatalf("the route has gone on while %.0f %% was measured: %s", asked*100, c.seen.Get())
	}
	totals := c.client.Totals()
	t.Logf("%s: asked %.0f %%, measured %.2f %% of %d (%.1f σ); p50 %s, p99 %s; %d requests so far, %d failed", color, asked*100,
		measured.Share()*100, measured.Total, measured.Sigmas(asked), stats.Quantile(window.Latencies, 0.5), stats.Quantile(window.Latencies, 0.99), totals.Sent, totals.Failed)
	if verdict != stats.Agrees {
		t.Errorf("%s answered %d of %d requests, asked %.0f %% (%.1f σ): %v", color, measured.Hits, measured.Total, asked*100, measured.Sigmas(asked), window.Colors)
	}
	if totals.Failed > 0 {
		t.Errorf("%d of %d requests have failed so far: %v", totals.Failed, totals.Sent, totals.Reasons)
	}
}

// measure waits for n requests from number first on.
func (c *walk) measure(t *testing.T, first, n int, color string) (stats.Split, load.Window) {
	t.Helper()
	var window load.Window
	within := time.Duration(float64(n)/c.rate*float64(time.Second)) + settleEnd + 2*requestTimeout
	await(t, fmt.Sprintf("%d answers", n), within, func() bool {
		window = c.client.Window(first, n)
		return window.Complete()
	}, func() string { return fmt.Sprintf("%d requests have ended", window.Done) })
	return stats.Split{Hits: window.Colors[color], Total: window.Done - window.Failed}, window
}

// weightChanges are the Rollout's TrafficWeightUpdated events, oldest first, as
// the controller has logged them: without those that name no weight, because
// only the pods that have the weights are others.
func (c *walk) weightChanges(t *testing.T) []string {
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
func (c *walk) storedChanges(t *testing.T) int {
	t.Helper()
	out := c.do(t, "kubectl", "get", "events", "--field-selector", "reason=TrafficWeightUpdated,involvedObject.uid="+c.uid(t), "-o", "name")
	return strings.Count(out, "\n")
}

// uid tells the Rollout from one of the same name that is gone.
func (c *walk) uid(t *testing.T) string {
	t.Helper()
	return c.do(t, "kubectl", "get", "rollout", c.rollout, "-o", "jsonpath={.metadata.uid}")
}
