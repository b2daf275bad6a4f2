package scenarios_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// scenario is what happens to a Rollout.
type scenario struct {
	name     string
	steps    string // in YAML's flow notation
	spec     string // a further field of spec
	canary   string // a further field of spec.strategy.canary
	routing  string // a further field of its trafficRouting
	managed  string // its managedRoutes
	pingPong bool
	instance string // whose controller it is; empty for the one of all
	only     string // the resource of the only router that it is for
	play     func(*stage)
	want     string // every share of web-canary that was ever stored, in percent; an experiment's behind a plus, managed rules in brackets
	or       string // what may be stored as well, by the controller's timing
	kedify   string // what is stored in place of want with the router kedify/http
	next     string // the same of the object next, where there is one
}

// ahead lets a Rollout at these shares, at which it pauses, go on.
func ahead(shares string) func(*stage) {
	return func(s *stage) {
		s.at(shares)
		s.promote()
	}
}

// play does one after the other.
func play(acts ...func(*stage)) func(*stage) {
	return func(s *stage) {
		for _, act := range acts {
			act(s)
		}
	}
}

// update begins a version, healthy and degraded wait for a phase.
func update(version string) func(*stage) { return func(s *stage) { s.update(version) } }
func healthy(s *stage)                   { s.shares("0"); s.is("Healthy") }
func degraded(s *stage)                  { s.shares("0"); s.is("Degraded") }

// twoSteps are steps with a pause each.
const twoSteps = "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}]"

// headerStep and mirrorStep are steps of managed routes.
func headerStep(name string) string {
	return "{setHeaderRoute: {name: " + name + ", match: [{headerName: role, headerValue: {exact: " + name + "}}]}}"
}

func mirrorStep(name string) string {
	return "{setMirrorRoute: {name: " + name + ", percentage: 20, match: [{path: {prefix: /}}]}}"
}

// scenarios are all. Those of a page are in the order in which a user meets them.
func scenarios() []scenario {
	all := []scenario{
		{name: "first installation", steps: twoSteps, play: healthy, want: "0"},
		{
			name: "every step", steps: "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {duration: 1s}}, {setWeight: 80}, {pause: {duration: 1s}}]",
			play: play(update("2"), ahead("20"), healthy), want: "0 20 50 80 100 0",
		},
		{name: "promoted at each pause", steps: twoSteps, play: play(update("2"), ahead("20"), ahead("50"), healthy), want: "0 20 50 100 0"},
		{name: "promoted in full", steps: twoSteps, play: play(update("2"), func(s *stage) { s.at("20"); s.promoteFull() }, healthy), want: "0 20 0"},
		{name: "no steps", steps: "[]", play: play(update("2"), healthy), want: "0"},
		{name: "retried after an abort", steps: twoSteps, play: play(update("2"), func(s *stage) { s.at("20"); s.abort() }, degraded,
			func(s *stage) { s.has("replicas", 4); s.retry() }, ahead("20"), ahead("50"), healthy), want: "0 20 0 20 50 100 0"},
		{name: "a third version in the middle", steps: twoSteps, play: play(update("2"), func(s *stage) { s.at("20") }, update("3"), func(s *stage) { s.shares("0") },
			ahead("20"), ahead("50"), healthy), want: "0 20 0 20 50 100 0"},
		{
			name: "rolled back within the window", spec: "rollbackWindow: {revisions: 3}", steps: "[" + headerStep("qa") + ", {setWeight: 20}, {pause: {}}]", managed: "[{name: qa}]",
			play: play(nextSecond, update("2"), func(s *stage) { s.at("20[qa]"); s.promote() }, healthy, update("1"), func(s *stage) { s.shares("100") }, healthy),
			want: "0 20[qa] 20 100 0 100 0",
		},
		{
			name: "setCanaryScale", steps: "[{setCanaryScale: {replicas: 1}}, {pause: {duration: 1s}}, {setWeight: 20}, {pause: {}}]",
			play: play(update("2"), ahead("20"), healthy), want: "0 20 100 0",
		},
		{name: "dynamicStableScale", canary: "dynamicStableScale: true", steps: twoSteps, play: play(update("2"), ahead("20"), ahead("50"), healthy), want: "0 20 50 100 0"},
		{
			name: "dynamicStableScale, aborted", canary: "dynamicStableScale: true", steps: twoSteps,
			play: play(update("2"), ahead("20"), func(s *stage) { s.at("50"); s.has("replicas", 4); s.abort() }, degraded), want: "0 20 50 20 0",
		},
		{
			name: "maxTrafficWeight 1000", routing: "maxTrafficWeight: 1000", steps: "[{setWeight: 1}, {pause: {}}, {setWeight: 500}, {pause: {}}]",
			play: play(update("2"), ahead("0.1"), ahead("50"), healthy), want: "0 0.1 50 100 0",
		},
		{name: "ping-pong, twice", pingPong: true, steps: "[{setWeight: 20}, {pause: {}}]", play: play(
			func(s *stage) { s.is("Healthy") }, update("2"), func(s *stage) { s.is("Paused"); s.promote(); s.is("Healthy") },
			update("3"), func(s *stage) { s.is("Paused"); s.promote(); s.is("Healthy") }), want: "0 20 100 80 0"},
		{
			name: "scaleDownDelaySeconds", canary: "scaleDownDelaySeconds: 1", steps: twoSteps,
			play: play(update("2"), ahead("20"), ahead("50"), healthy, update("3"), ahead("20"), ahead("50"), healthy), want: "0 20 50 100 0 20 50 100 0",
		},
		{
			name: "an Experiment with weights", steps: "[{setWeight: 20}, {pause: {}}, {experiment: {duration: 6s, templates: [{name: a, specRef: canary, weight: 10}, " +
				"{name: b, specRef: stable, weight: 5}]}}, {pause: {}}]", play: play(update("2"), ahead("20"), func(s *stage) { s.shares("20+10+5") }, ahead("20"), healthy),
			want: "0 20 20+10+5 20 100 0",
		},
		{
			name: "aborted in an Experiment", steps: "[{setWeight: 20}, {experiment: {templates: [{name: a, specRef: canary, weight: 10}]}}]",
			play: play(update("2"), func(s *stage) { s.shares("20+10"); s.abort() }, degraded), want: "0 20 20+10 0",
		},
		{name: "another object in the middle", steps: twoSteps, play: play(func(s *stage) { s.object("next") }, update("2"), func(s *stage) {
			s.at("20")
			s.configure(strings.NewReplacer("NAME", `"next"`, "{", `{"`, ": ", `": `, ", ", `, "`).Replace(s.router.config))
			s.shares("0")
			s.promote()
			s.sharesOf("next", "50")
			s.is("Paused")
			s.promote()
			s.sharesOf("next", "0")
		}, healthy), want: "0 20 0", next: "0 20 50 100 0"},
		{name: "another selector in the middle", only: gateway.resource, steps: twoSteps, play: play(func(s *stage) {
			s.object("next")
			s.configure(`{"httpRouteSelector":{"matchLabels":{"app":"web"}},"httpRoute":null,"verifyRouteStatus":false}`)
		}, update("2"), func(s *stage) {
			s.at("20")
			s.configure(`{"httpRouteSelector":{"matchLabels":{"app":"next"}}}`)
			s.shares("0")
			s.sharesOf("next", "20")
			s.abort()
			s.sharesOf("next", "0")
		}, degraded), want: "0 20 0", next: "0 20 0"},
		{name: "deleted and made again", steps: twoSteps, play: recreated, want: "0 20 0 20 50 100 0"},
		{
			name: "replicas changed at each step", steps: twoSteps, play: play(update("2"), func(s *stage) { s.at("20"); s.scale(6); s.at("20"); s.promote() },
				func(s *stage) { s.at("50"); s.scale(2); s.at("50"); s.promote() }, healthy), want: "0 20 50 100 0",
			or: "0 20 50 0",
		}, // the canary has enough Pods for all, and the controller may promote it before it asks for 100
		{name: "the controller killed at each step", steps: twoSteps, instance: "killed", play: killed, want: "0 20 50 100 0"},
		{name: "the leader killed in the middle", steps: twoSteps, instance: "led", play: leaderKilled, want: "0 20 50 100 0"},
		{
			name: "managed routes in their order", managed: "[{name: a}, {name: b}, {name: c}]",
			steps: "[{setCanaryScale: {weight: 20}}, " + mirrorStep("c") + ", " + headerStep("b") + ", " + headerStep("a") + ", {pause: {}}, {setWeight: 20}, {pause: {}}]",
			play: func(s *stage) {
				all := "[a][b][c]"
				if s.router.resource == gateway.resource {
					all = "[c][a][b]"
				}
				play(update("2"), ahead("0"+all), ahead("20"+all), healthy)(s)
			},
			want:   "0 0[c] 0[c][b] 0[c][a][b] 20[c][a][b] 100[c][a][b] 100 0", // rules of more conditions win, wherever they stand
			kedify: "0 0[c] 0[b][c] 0[a][b][c] 20[a][b][c] 100[a][b][c] 100 0", // the first that matches wins
		},
		{name: "the canary without Pods for a moment", managed: "[{name: qa}]", steps: "[" + headerStep("qa") + ", {setWeight: 20}, {pause: {}}]", play: play(update("2"),
			func(s *stage) {
				s.at("20[qa]")
				s.player.Limit(s.namespace, "2", 0)
				s.shares("0")
				s.player.Unlimit(s.namespace, "2")
			}, ahead("20[qa]"), healthy), want: "0 20[qa] 20 0 20[qa] 100[qa] 100 0"},
		{name: "a managed route removed by a step", managed: "[{name: a}]", steps: "[{setCanaryScale: {weight: 20}}, " + headerStep("a") +
			", {pause: {}}, {setHeaderRoute: {name: a}}, {setWeight: 20}, {pause: {}}]", play: play(update("2"), ahead("0[a]"), ahead("20"), healthy), want: "0 0[a] 0 20 100 0"},
	}
	for _, step := range []string{"20", "50", "100"} {
		steps := "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}, {setWeight: 100}, {pause: {}}]"
		var before []func(*stage)
		stored := []string{"0"}
		for _, weight := range []string{"20", "50", "100"} {
			if stored = append(stored, weight); weight == step {
				break
			}
			before = append(before, ahead(weight))
		}
		want := strings.Join(stored, " ")
		all = append(all,
			scenario{
				name: "aborted at " + step, steps: steps, want: want + " 0",
				play: play(update("2"), play(before...), func(s *stage) { s.at(step); s.abortAtOnce(nil) }, degraded),
			},
			scenario{name: "undone at " + step, steps: steps, play: play(update("2"), play(before...), func(s *stage) { s.at(step) }, update("1"), healthy), want: want + " 0"},
			scenario{
				name: "aborted at " + step + " while half of the stable Pods are pending and an HPA scales", steps: steps, want: want + " 0",
				play: play(update("2"), play(before...), func(s *stage) {
					s.at(step)
					s.abortAtOnce(func() {
						s.player.Limit(s.namespace, "1", 2)
						s.scale(8)
					})
					s.player.Unlimit(s.namespace, "1")
				}, degraded),
			})
	}
	all = append(all, ofTwoTriggers()...)
	return append(all, scenario{name: "aborted while no stable Pod is ready", steps: twoSteps, want: "0 20 0", play: play(update("2"), func(s *stage) {
		s.at("20")
		s.player.Limit(s.namespace, "1", 0)
		s.has("availableReplicas", 1) // of the canary; until the controller knows that, it lets the abort pass
		s.await("no stable Pod is ready", "[]", func() string { return s.subsets(stableService) })
		s.abort()
		s.reconciled()
		if got := s.last(s.router.resource, s.namespace, "web").text; got != "20" { // where would the requests go?
			s.t.Errorf("the controller has reconciled the abort without a ready stable Pod, and the shares are %q, want %q", got, "20")
		}
		s.player.Unlimit(s.namespace, "1")
	}, degraded)})
}

// abortAtOnce aborts, after what happens at that moment, and fails unless the next shares that are stored take the canary's away.
func (s *stage) abortAtOnce(happens func()) {
	s.t.Helper()
	if happens != nil {
		happens()
	}
	s.settle()
	begin, before := time.Now(), len(s.since(s.router.resource, s.namespace, "web", 0))
	s.abort()
	s.aborted = s.shares("0").Sub(begin)
	if first := s.since(s.router.resource, s.namespace, "web", before)[0].text; first != "0" {
		invariant.Broken(s.t, invariant.StrangeWeights, "the first shares after the abort are %q, want %q", first, "0")
	}
	s.await("the plugin's word on the abort", "true", func() string {
		s.inPlugin = tookToEnd(s.log())
		return strconv.FormatBool(s.inPlugin != "")
	})
}

// nextSecond waits until the full second after that of the newest ReplicaSet: the controller tells their ages apart by the second.
func nextSecond(s *stage) {
	s.t.Helper()
	var read struct {
		Items []struct {
			Metadata struct{ CreationTimestamp time.Time }
		}
	}
	body, err := s.admin.Get().AbsPath("/apis/apps/v1/namespaces/" + s.namespace + "/replicasets").DoRaw(s.t.Context())
	if err = errors.Join(err, json.Unmarshal(body, &read)); err != nil || len(read.Items) == 0 {
		s.t.Fatalf("read the ReplicaSets: %v (%d of them)", err, len(read.Items))
	}
	var newest time.Time
	for _, set := range read.Items {
		if set.Metadata.CreationTimestamp.After(newest) {
			newest = set.Metadata.CreationTimestamp
		}
	}
	await.True(s.t, "the next second", func() bool { return !time.Now().Before(newest.Add(time.Second)) })
}

// took matches the field of a plugin's log line that says how long a call took until all was written.
var took = regexp.MustCompile(` took=(\S+)`)

// tookToEnd is how long the last call took, by a controller's log, in which the canary's share was taken away; empty where there was none. The controller logs what
// its plugins do, the fields in any order.
func tookToEnd(log string) string {
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		fields := took.FindStringSubmatch(line)
		if fields != nil && strings.Contains(line, "weights written") && strings.Contains(line+" ", " canaryWeight=0 ") {
			return fields[1]
		}
	}
	return ""
}

// subsets are those of a Service's Endpoints.
func (s *stage) subsets(service string) string {
	body, err := s.admin.Get().AbsPath("/api/v1/namespaces/" + s.namespace + "/endpoints/" + service).DoRaw(s.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case strings.Contains(string(body), `"addresses"`):
		return "some"
	}
	return "[]"
}

// recreated deletes the Rollout in the middle of a canary and makes it again with the version that it had then.
func recreated(s *stage) {
	s.update("2")
	s.at("20")
	s.settle()
	if err := s.admin.Delete().AbsPath(s.path()).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatal(err)
	}
	s.await("the Rollout is gone", "gone", func() string {
		if err := s.admin.Get().AbsPath(s.path()).Do(s.t.Context()).Error(); err != nil {
			return "gone"
		}
		return ""
	})
	s.rollout(scenario{steps: twoSteps}, "2")
	healthy(s)
	play(update("3"), ahead("20"), ahead("50"), healthy)(s)
}

// control starts a controller for the scenario's Rollout.
func (s *stage) control(name string, flags ...string) {
	s.t.Helper()
	controller, err := s.controller(name, flags...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = controller.End() })
	s.controllers = append(s.controllers, controller)
}

// killed kills its controller, which knows no other Rollouts, at each step.
func killed(s *stage) {
	starts := 0
	again := func() {
		starts++
		s.control(fmt.Sprint("killed-", s.namespace, "-", starts), "--leader-elect=false", "--instance-id", "killed-"+s.namespace)
	}
	kill := func() { _ = s.controllers[starts-1].End() }
	again()
	s.is("Healthy")
	s.update("2")
	for _, weight := range []string{"20", "50"} {
		s.shares(weight)
		kill()
		again()
		ahead(weight)(s)
	}
	s.shares("100")
	kill()
	again()
	healthy(s)
}

// leaderKilled has two replicas of a controller, of which the leader is killed.
func leaderKilled(s *stage) {
	if s.release.oneLease {
		s.lease.Lock()
		s.t.Cleanup(s.lease.Unlock) // when they have ended
	}
	for _, name := range []string{"a", "b"} {
		s.control(name+"-"+s.namespace, "--instance-id", "led-"+s.namespace, "--leader-election-lease-duration", "6s",
			"--leader-election-renew-deadline", "5s", "--leader-election-retry-period", "500ms")
		if name == "a" {
			s.is("Healthy")
		}
	}
	s.update("2")
	s.shares("20")
	_ = s.controllers[0].End()
	play(ahead("20"), ahead("50"), healthy)(s)
}
