package routes

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// flips is how often the control's header rule is added and removed.
	flips = 15
	// between is the time between two of these changes.
	between = 500 * time.Millisecond
)

// The control's rules, as merge patches: with a header route, with one that no request meets, and without.
const (
	stableRule    = `{"backendRefs":[{"name":"web-stable","port":80}]}`
	headerRule    = `{"name":"qa","backendRefs":[{"name":"web-stable","port":80}],"matches":[{"headers":[{"name":"role","value":"qa"}`
	withHeader    = `{"spec":{"rules":[` + stableRule + `,` + headerRule + `]}]}]}}`
	withUnmet     = `{"spec":{"rules":[` + stableRule + `,` + headerRule + `,{"name":"unmet","value":"x"}]}]}]}}`
	withoutHeader = `{"spec":{"rules":[` + stableRule + `]}}`
)

// control adds and removes a header rule without a router, under load, and counts the failed requests: directly, and
// with an intermediate rule that matches no request. Envoy Gateway has a cluster for each rule and sends rules and
// clusters separately. For some milliseconds a worker of its proxy therefore has only one of them. The canary loses
// nothing to that, because the router adds and removes a rule while it matches no request.
func (r *run) control(t *testing.T) {
	t.Helper()
	config := r.target(controlHost)
	config.Rate, config.Header = rate, map[string]string{"role": "qa"}
	client, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range []struct {
		name  string
		rules []string
	}{
		{"a header rule comes and goes", []string{withHeader, withoutHeader}},
		{"it is met by no client before and after", []string{withUnmet, withHeader, withUnmet, withoutHeader}},
	} {
		lost, before := make([]int, len(variant.rules)), client.Totals().Sent
		for range flips {
			for i, rules := range variant.rules {
				before := client.Totals().Failed
				r.Do(t, "patch", "httproute", "control", "--type=merge", "-p", rules)
				r.sample(t, client, time.Now().Add(between), 1)
				lost[i] += client.Totals().Failed - before
			}
		}
		t.Logf("control, without any router, %s, %d times: %d requests, failed at each of these writes: %v",
			variant.name, flips,
			client.Totals().Sent-before, lost)
	}
	totals, _ := client.Stop()
	gaps := testbed.CountClusterNotFound(r.cluster.Logs, controlHost)
	t.Logf("control: %d of %d requests failed %v, %d of them met a rule without its cluster", totals.Failed,
		totals.Sent, totals.Reasons, gaps)
	if totals.Failed > gaps {
		t.Errorf("the control failed otherwise than by Envoy Gateway's gaps: %v", totals.Reasons)
	}
}
