package gateway

import (
	"encoding/json"
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
	// abortsEach is the number of measured aborts with each value of debounceMax.
	abortsEach = 8
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

// routeDump is the relevant part of Envoy's answer to config_dump?resource=dynamic_route_configs.
type routeDump struct {
	Configs []struct {
		// LastUpdated is when Envoy's main thread applied the configuration. Its workers follow within milliseconds.
		LastUpdated time.Time `json:"last_updated"`
		RouteConfig struct {
			VirtualHosts []struct {
				Routes []struct {
					Route struct {
						Cluster          string `json:"cluster"`
						WeightedClusters struct {
							Clusters []struct {
								Name   string `json:"name"`
								Weight int    `json:"weight"`
							} `json:"clusters"`
						} `json:"weighted_clusters"`
					} `json:"route"`
				} `json:"routes"`
			} `json:"virtual_hosts"`
		} `json:"route_config"`
	} `json:"configs"`
}

// appliedSince returns since when the last route with the stable Service has this weight for the canary Service.
func (d routeDump) appliedSince(stable, canary string, weight int) (since time.Time, ok bool) {
	for _, config := range d.Configs {
		for _, host := range config.RouteConfig.VirtualHosts {
			for _, r := range slices.Backward(host.Routes) {
				weights := map[string]int{serviceOf(r.Route.Cluster): 100} // istiod omits a backend without weight
				for _, cluster := range r.Route.WeightedClusters.Clusters {
					weights[serviceOf(cluster.Name)] = cluster.Weight
				}
				if weights[stable] == 100-weight && weights[canary] == weight {
					return config.LastUpdated, true
				}
			}
		}
	}
	return time.Time{}, false
}

// serviceOf returns the name of the Service of one of istiod's clusters, such as
// "outbound|80||my-app-stable.default.svc.cluster.local".
func serviceOf(cluster string) string {
	service, _, _ := strings.Cut(cluster[strings.LastIndex(cluster, "|")+1:], ".")
	return service
}

// istioRoutes asks the agent of a Gateway's proxy for the routes that Envoy applies.
func istioRoutes(t *testing.T, w environment, p proxy) routeDump {
	t.Helper()
	name := strings.Split(w.setup.forwards[p.service], ".") // of the Service, and its namespace
	out := w.do(t, "kubectl", "-n", name[1], "exec", "deploy/"+name[0], "--",
		"pilot-agent", "request", "GET", "config_dump?resource=dynamic_route_configs")
	var dump routeDump
	_, text, _ := strings.Cut(out, "{") // after the agent's warnings
	if err := json.Unmarshal([]byte("{"+text), &dump); err != nil {
		t.Fatalf("read the routes of %s: %v\n%s", p.service, err, out)
	}
	return dump
}

// applied waits until the proxy applies a weight, and describes how long after a moment it did. It gives up when the
// route has another weight.
func (c *guideRun) applied(t *testing.T, weight int, moment time.Time) string {
	t.Helper()
	var since time.Time
	var ok bool
	await.Described(t, fmt.Sprintf("the proxy to apply weight %d", weight), func() bool {
		since, ok = c.setup.applied(t, c.environment, c.proxy).appliedSince(c.stable, c.canary, weight)
		return ok || !c.hasWeight(weight)
	}, c.state)
	if !ok {
		return "never seen"
	}
	return fmt.Sprintf("%s after its acceptance", since.Sub(moment).Round(time.Millisecond))
}

// testAborts measures how long after an abort the canary still receives requests, for istiod's default of debounceMax
// and for one second. Until the canary is scaled down, Argo Rollouts changes the selector of the canary Service many
// times per second. istiod sends nothing before it has seen no change for PILOT_DEBOUNCE_AFTER, or for debounceMax at
// most.
func testAborts(t *testing.T, w environment, p proxy) { //nolint:thelper // a subtest
	w.apply(t, "my-app", p.manifest, "services", "httproute", "rollout")
	w.explainFailure(t, "rollout,httproute")
	w.do(t, "kubectl", "patch", "rollout", "my-app", "--type=merge",
		"-p", `{"spec":{"strategy":{"canary":{"steps":[{"setWeight":50},{"pause":{}}]}}}}`)
	c := startGuideRun(t, w, p, guide{
		rollout: "my-app", container: "app", route: "my-app-route", stable: "my-app-stable", canary: "my-app-canary",
		host: "api.example.com", path: "/my-app", colors: []string{"v1.0.0", "v1.1.0", "v1.2.0"},
		rate: 100, sample: 200,
	})
	versions := []string{"v1.1.0", "v1.2.0"} // alternately: an image that does not change starts no canary
	for _, limit := range []string{"", "1s"} {
		if limit != "" {
			w.do(t, "kubectl", "-n", istioNamespace, "set", "env", istiod, debounceMax+"="+limit)
			w.do(t, "kubectl", "-n", istioNamespace, "rollout", "status", istiod)
		}
		for i := range abortsEach {
			c.measureAbort(t, fmt.Sprintf("%s=%q, abort %d", debounceMax, limit, i+1), versions[0])
			slices.Reverse(versions)
		}
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

func TestAppliedSince(t *testing.T) {
	const text = `{"configs": [{"last_updated": "2026-11-28T10:00:00.250Z", "route_config": {"virtual_hosts": [{"routes": [
		{"route": {"cluster": "outbound|80||my-app-canary.default.svc.cluster.local"}},
		{"route": {"weighted_clusters": {"clusters": [
			{"name": "outbound|80||my-app-stable.default.svc.cluster.local", "weight": 75},
			{"name": "outbound|80||my-app-canary.default.svc.cluster.local", "weight": 25}]}}},
		{"route": {"cluster": "outbound|80||other-stable.default.svc.cluster.local"}}]}]}}]}`
	var dump routeDump
	if err := json.Unmarshal([]byte(text), &dump); err != nil {
		t.Fatal(err)
	}
	updated := time.Date(2026, 11, 28, 10, 0, 0, 250_000_000, time.UTC)
	for _, tt := range []struct {
		app    string
		weight int
		want   bool
	}{
		{"my-app", 25, true},
		{"my-app", 50, false},
		{"my-app", 0, false},
		{"other", 0, true},
	} {
		since, ok := dump.appliedSince(tt.app+"-stable", tt.app+"-canary", tt.weight)
		if ok != tt.want || ok && !since.Equal(updated) {
			t.Errorf("%s at %d: %v since %s", tt.app, tt.weight, ok, since)
		}
	}
}
