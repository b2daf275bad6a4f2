package routes

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
)

const (
	// flips is how often the control's header rule comes and goes.
	flips = 15
	// between is the time between two of them.
	between = 300 * time.Millisecond
)

// The control's rules, as a merge patch: with a header route, and without.
const (
	withHeader = `{"spec":{"rules":[{"backendRefs":[{"name":"web-stable","port":80}]},` +
		`{"name":"qa","matches":[{"headers":[{"name":"role","value":"qa"}]}],"backendRefs":[{"name":"web-stable","port":80}]}]}}`
	withoutHeader = `{"spec":{"rules":[{"backendRefs":[{"name":"web-stable","port":80}]}]}}`
)

// control lets a header rule come and go without any router, under load, and counts what that costs. Envoy Gateway has a cluster for each rule and sends rules and clusters
// apart, so that for some milliseconds a worker of its proxy has the one and not the other. Whoever writes the route cannot help that: the rule has to go, and its
// cluster goes with it. So a walk may lose mostClusterGaps requests to that, where Envoy's own log says so.
func (r *run) control(t *testing.T) {
	t.Helper()
	config := r.target(controlHost)
	config.Rate, config.Header = rate, map[string]string{"role": "qa"}
	client, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for range flips {
		for _, rules := range []string{withHeader, withoutHeader} {
			r.Do(t, "patch", "httproute", "control", "--type=merge", "-p", rules)
			r.sample(t, client, time.Now().Add(between), 1)
		}
	}
	totals, _ := client.Stop()
	gaps := bed.ClusterGaps(r.cluster.Logs, controlHost)
	t.Logf("control: a header rule came and went %d times without any router: %d of %d requests failed %v, %d of them met a rule without its cluster",
		flips, totals.Failed, totals.Sent, totals.Reasons, gaps)
	if totals.Failed > gaps {
		t.Errorf("the control failed otherwise than by Envoy Gateway's gaps: %v", totals.Reasons)
	}
}
