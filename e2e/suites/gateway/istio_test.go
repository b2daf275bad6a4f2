package gateway

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	istioNamespace = "istio-system"
	istiod         = "deploy/istiod"
	// debounceMax is the variable of istiod with the longest time for which it collects changes before it sends them.
	debounceMax = "PILOT_DEBOUNCE_MAX"
)

// onIstio adds a check to a guide run: a proxy must not reject what istiod sends. Neither the Gateway's nor the route's
// status would show it.
func onIstio(run func(t *testing.T, w environment, p proxy)) func(t *testing.T, w environment, p proxy) {
	return func(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
		run(t, w, p)
		for line := range strings.Lines(w.do(t, "kubectl", "-n", istioNamespace, "logs", istiod, "--tail=-1")) {
			if strings.Contains(line, "ACK ERROR") {
				t.Errorf("a proxy rejected an update: %s", line)
			}
		}
	}
}

// testIstioAborts measures how long after an abort the canary still receives requests, for istiod's default of
// debounceMax and for one second. Until the canary is scaled down, Argo Rollouts changes the selector of the canary
// Service many times per second. istiod sends nothing before it has seen no change for PILOT_DEBOUNCE_AFTER, or for
// debounceMax at most.
func testIstioAborts(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	c := startAborts(t, w, p)
	for _, limit := range []string{"", "1s"} {
		if limit != "" {
			w.do(t, "kubectl", "-n", istioNamespace, "set", "env", istiod, debounceMax+"="+limit)
			w.do(t, "kubectl", "-n", istioNamespace, "rollout", "status", istiod)
		}
		c.measureAborts(t, fmt.Sprintf("%s=%q", debounceMax, limit))
		c.logPushes(t, debounceMax+"="+limit)
	}
}

// logPushes waits until an aborted canary is scaled down, and logs how long istiod collected changes meanwhile.
func (c *guideRun) logPushes(t *testing.T, name string) {
	t.Helper()
	began := time.Now().Add(-time.Second) // kubectl takes whole seconds
	await.Described(t, "the aborted canary to be scaled down", func() bool {
		_, canary := c.object.Get().Sides()
		return canary == 0
	}, c.state)
	delays := pushDelays(c.do(t, "kubectl", "-n", istioNamespace, "logs", istiod, "--tail=-1",
		"--since-time="+began.UTC().Format(time.RFC3339)))
	if len(delays) == 0 {
		t.Errorf("%s: istiod has sent nothing in %s", name, time.Since(began))
		return
	}
	slices.Sort(delays)
	t.Logf("%s: in the %s until the aborted canary was scaled down, istiod sent %d updates, and collected changes for %s "+
		"at the median, and %s at most", name, time.Since(began).Round(time.Second), len(delays), delays[len(delays)/2],
		delays[len(delays)-1])
}

// pushDelays returns how long the first change of each update waited, from istiod's log.
func pushDelays(log string) []time.Duration {
	var all []time.Duration
	pattern := regexp.MustCompile(`Push debounce stable.* since last change, (\S+) since last push`)
	for _, match := range pattern.FindAllStringSubmatch(log, -1) {
		if delay, err := time.ParseDuration(match[1]); err == nil {
			all = append(all, delay)
		}
	}
	return all
}

func TestPushDelays(t *testing.T) {
	const text = `info	ads	Push debounce stable[32] 81 for config Endpoints/default/my-app-canary.default.svc.cluster.local ` +
		`and 1 more configs: 9.470109ms since last change, 1.088226607s since last push, forced=false
info	ads	XDS: Pushing Services:11 ConnectedEndpoints:1 Version:2026-11-29T01:14:52Z/32
info	ads	Push debounce stable[33] 17 for reason config: 100.45ms since last change, 355.356931ms since last push, forced=false
`
	want := []time.Duration{1088226607, 355356931}
	if got := pushDelays(text); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
