package scenarios_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// scenario is a sequence of events of a Rollout.
type scenario struct {
	name     string
	steps    string // in YAML's flow notation
	spec     string // a further field of spec
	canary   string // a further field of spec.strategy.canary
	routing  string // a further field of its trafficRouting
	managed  string // its managedRoutes
	pingPong bool
	instance string // the instance ID of its controller; empty for the shared one
	only     string // the resource of the only router that it runs with
	play     func(*environment)
	// all stored weights of web-canary, in percent; those of an experiment after a plus, managed rules in brackets
	want   string
	or     string // the alternative to want that depends on the controller's timing
	kedify string // replaces want for the router kedify/http
	next   string // the same for the object next, if there is one
}

// ahead continues a Rollout that pauses at these weights.
func ahead(weights string) func(*environment) {
	return func(s *environment) {
		s.awaitPause(weights)
		s.promote()
	}
}

// play runs the acts in order.
func play(acts ...func(*environment)) func(*environment) {
	return func(s *environment) {
		for _, act := range acts {
			act(s)
		}
	}
}

// update starts a version, healthy and degraded wait for a phase.
func update(version string) func(*environment) { return func(s *environment) { s.update(version) } }
func healthy(s *environment)                   { s.awaitSplit("0"); s.awaitPhase("Healthy") }
func degraded(s *environment)                  { s.awaitSplit("0"); s.awaitPhase("Degraded") }

// twoSteps are steps with a pause each.
const twoSteps = "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}]"

// headerStep and mirrorStep are steps of managed routes.
func headerStep(name string) string {
	return "{setHeaderRoute: {name: " + name + ", match: [{headerName: role, headerValue: {exact: " + name + "}}]}}"
}

func mirrorStep(name string) string {
	return "{setMirrorRoute: {name: " + name + ", percentage: 20, match: [{path: {prefix: /}}]}}"
}

// scenarios returns all scenarios. Those of a docs page are in its order.
func scenarios() []scenario {
	all := []scenario{
		{name: "first installation", steps: twoSteps, play: healthy, want: "0"},
		{
			name: "every step", steps: "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {duration: 1s}}, {setWeight: " +
				"80}, {pause: {duration: 1s}}]",
			play: play(update("2"), ahead("20"), healthy), want: "0 20 50 80 100 0",
		},
		{
			name: "promoted at each pause", steps: twoSteps, play: play(update("2"), ahead("20"), ahead("50"), healthy),
			want: "0 20 50 100 0",
		},
		{name: "promoted in full", steps: twoSteps, play: play(update("2"),
			func(s *environment) { s.awaitPause("20"); s.promoteFull() }, healthy), want: "0 20 0"},
		{name: "no steps", steps: "[]", play: play(update("2"), healthy), want: "0"},
		{name: "retried after an abort", steps: twoSteps, play: play(update("2"),
			func(s *environment) { s.awaitPause("20"); s.abort() }, degraded,
			func(s *environment) { s.awaitStatus("replicas", 4); s.retry() }, ahead("20"), ahead("50"),
			healthy), want: "0 20 0 20 50 100 0"},
		{
			name: "a third version in the middle", steps: twoSteps,
			play: play(update("2"), func(s *environment) { s.awaitPause("20") }, update("3"),
				func(s *environment) { s.awaitSplit("0") },
				ahead("20"), ahead("50"), healthy), want: "0 20 0 20 50 100 0",
		},
		{
			name: "rolled back within the window", spec: "rollbackWindow: {revisions: 3}", steps: "[" + headerStep("qa") +
				", {setWeight: 20}, {pause: {}}]", managed: "[{name: qa}]",
			play: play(nextSecond, update("2"), func(s *environment) { s.awaitPause("20[qa]"); s.promote() }, healthy,
				update("1"),
				func(s *environment) { s.awaitSplit("100") }, healthy),
			want: "0 20[qa] 20 100 0 100 0",
		},
		{
			name: "rolled back within the window while the Pods start", spec: "rollbackWindow: {revisions: 3}",
			canary: "scaleDownDelaySeconds: 1", steps: "[{setWeight: 20}, {pause: {}}, {setWeight: 80}, {pause: {}}]",
			play: play(nextSecond, update("2"), ahead("20"), ahead("80"), healthy, rollback, risingWeight("1", 2), healthy),
			want: "0 20 80 100 0 25 50 75 100 0", or: "0 20 80 100 0 25 50 75 80 100 0",
		}, // the controller may still request 80 when the router counts the last Pod as ready
		{
			name: "rolled back within the window to a last weight of 100", spec: "rollbackWindow: {revisions: 3}",
			canary: "scaleDownDelaySeconds: 1", steps: "[{setWeight: 20}, {pause: {}}, {setWeight: 100}, {pause: {}}]",
			play: play(nextSecond, update("2"), ahead("20"), ahead("100"), healthy, rollback, func(s *environment) {
				s.player.RemoveLimit(s.namespace, "1")
			}, healthy),
			want: "0 20 100 0 25 100 0", or: "0 20 100 0 25 0",
		}, // the controller may promote the version before the Endpoints have its last Pods
		{
			name: "all steps skipped while the Pods start", steps: "[{setWeight: 20}, {pause: {}}, {setWeight: 80}, {pause: {}}]",
			play: play(update("2"), func(s *environment) {
				s.awaitPause("20")
				s.player.LimitAvailable(s.namespace, "2", 2)
				s.skipSteps()
			}, risingWeight("2", 2), healthy), want: "0 20 25 50 75 100 0", or: "0 20 25 50 75 80 100 0",
		},
		{
			name: "setCanaryScale", steps: "[{setCanaryScale: {replicas: 1}}, {pause: {duration: 1s}}, {setWeight: 20}, " +
				"{pause: {}}]",
			play: play(update("2"), ahead("20"), healthy), want: "0 20 100 0",
		},
		{
			name: "dynamicStableScale", canary: "dynamicStableScale: true", steps: twoSteps,
			play: play(update("2"), ahead("20"), ahead("50"), healthy), want: "0 20 50 100 0",
		},
		{
			name: "dynamicStableScale, aborted", canary: "dynamicStableScale: true", steps: twoSteps,
			play: play(update("2"), ahead("20"),
				func(s *environment) { s.awaitPause("50"); s.awaitStatus("replicas", 4); s.abort() },
				degraded), want: "0 20 50 20 0",
		},
		{
			name: "maxTrafficWeight 1000", routing: "maxTrafficWeight: 1000",
			steps: "[{setWeight: 1}, {pause: {}}, {setWeight: 500}, {pause: {}}]",
			play:  play(update("2"), ahead("0.1"), ahead("50"), healthy), want: "0 0.1 50 100 0",
		},
		{
			name: "ping-pong, twice", pingPong: true, steps: "[{setWeight: 20}, {pause: {}}]", play: play(
				func(s *environment) { s.awaitPhase("Healthy") }, update("2"),
				func(s *environment) { s.awaitPhase("Paused"); s.promote(); s.awaitPhase("Healthy") },
				update("3"), func(s *environment) { s.awaitPhase("Paused"); s.promote(); s.awaitPhase("Healthy") }),
			want: "0 20 100 80 0",
		},
		{
			name: "scaleDownDelaySeconds", canary: "scaleDownDelaySeconds: 1", steps: twoSteps,
			play: play(update("2"), ahead("20"), ahead("50"), healthy, update("3"), ahead("20"), ahead("50"), healthy),
			want: "0 20 50 100 0 20 50 100 0",
		},
		{
			name: "an Experiment with weights", steps: "[{setWeight: 20}, {pause: {}}, {experiment: {duration: 6s, templates: " +
				"[{name: a, specRef: canary, weight: 10}, " +
				"{name: b, specRef: stable, weight: 5}]}}, {pause: {}}]",
			play: play(update("2"), ahead("20"), func(s *environment) { s.awaitSplit("20+10+5") }, ahead("20"), healthy),
			want: "0 20 20+10+5 20 100 0",
		},
		{
			name: "aborted in an Experiment", steps: "[{setWeight: 20}, {experiment: {templates: [{name: a, specRef: canary, " +
				"weight: 10}]}}]",
			play: play(update("2"), func(s *environment) { s.awaitSplit("20+10"); s.abort() }, degraded), want: "0 20 20+10 0",
		},
		{
			name: "another object in the middle", steps: twoSteps,
			play: play(func(s *environment) { s.object("next") }, update("2"), func(s *environment) {
				s.awaitPause("20")
				s.configure(strings.NewReplacer("NAME", `"next"`, "{", `{"`, ": ", `": `, ", ", `, "`).Replace(s.router.config))
				s.awaitSplit("0")
				s.promote()
				s.awaitSplitOf("next", "50")
				s.awaitPhase("Paused")
				s.promote()
				s.awaitSplitOf("next", "0")
			}, healthy), want: "0 20 0", next: "0 20 50 100 0",
		},
		{name: "another selector in the middle", only: gateway.resource, steps: twoSteps, play: play(func(s *environment) {
			s.object("next")
			s.configure(`{"httpRouteSelector":{"matchLabels":{"app":"web"}},"httpRoute":null,"verifyRouteStatus":false}`)
		}, update("2"), func(s *environment) {
			s.awaitPause("20")
			s.configure(`{"httpRouteSelector":{"matchLabels":{"app":"next"}}}`)
			s.awaitSplit("0")
			s.awaitSplitOf("next", "20")
			s.abort()
			s.awaitSplitOf("next", "0")
		}, degraded), want: "0 20 0", next: "0 20 0"},
		{name: "deleted and made again", steps: twoSteps, play: recreated, want: "0 20 0 20 50 100 0"},
		{
			name: "replicas changed at each step", steps: twoSteps,
			play: play(update("2"), func(s *environment) { s.awaitPause("20"); s.scale(6); s.awaitPause("20"); s.promote() },
				func(s *environment) { s.awaitPause("50"); s.scale(2); s.awaitPause("50"); s.promote() }, healthy), want: "0 20 50 100 0",
			or: "0 20 50 0",
		}, // the canary has enough Pods, and the controller may promote it before it sets 100
		{
			name: "the controller killed at each step", steps: twoSteps, instance: "killed", play: killed,
			want: "0 20 50 100 0",
		},
		{
			name: "the leader killed in the middle", steps: twoSteps, instance: "led", play: leaderKilled,
			want: "0 20 50 100 0",
		},
		{
			name: "managed routes in their order", managed: "[{name: a}, {name: b}, {name: c}]",
			steps: "[{setCanaryScale: {weight: 20}}, " + mirrorStep("c") + ", " + headerStep("b") + ", " + headerStep("a") +
				", {pause: {}}, {setWeight: 20}, {pause: {}}]",
			play: func(s *environment) {
				all := "[a][b][c]"
				if s.router.resource == gateway.resource {
					all = "[c][a][b]"
				}
				play(update("2"), ahead("0"+all), ahead("20"+all), healthy)(s)
			},
			// rules with more conditions win, whatever their order
			want:   "0 0[c] 0[c][b] 0[c][a][b] 20[c][a][b] 100[c][a][b] 100 0",
			kedify: "0 0[c] 0[b][c] 0[a][b][c] 20[a][b][c] 100[a][b][c] 100 0", // the first match wins
		},
		{name: "the canary without Pods for a moment", managed: "[{name: qa}]", steps: "[" + headerStep("qa") +
			", {setWeight: 20}, {pause: {}}]", play: play(update("2"),
			func(s *environment) {
				s.awaitPause("20[qa]")
				s.player.LimitAvailable(s.namespace, "2", 0)
				s.awaitSplit("0")
				s.player.RemoveLimit(s.namespace, "2")
			}, ahead("20[qa]"), healthy), want: "0 20[qa] 20 0 20[qa] 100[qa] 100 0"},
		{
			name: "a managed route removed by a step", managed: "[{name: a}]", steps: "[{setCanaryScale: {weight: 20}}, " +
				headerStep("a") +
				", {pause: {}}, {setHeaderRoute: {name: a}}, {setWeight: 20}, {pause: {}}]",
			play: play(update("2"), ahead("0[a]"), ahead("20"), healthy), want: "0 0[a] 0 20 100 0",
		},
	}
	for _, step := range []string{"20", "50", "100"} {
		steps := "[{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}, {setWeight: 100}, {pause: {}}]"
		var before []func(*environment)
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
				play: play(update("2"), play(before...), func(s *environment) { s.awaitPause(step); s.abortAtOnce(nil) }, degraded),
			},
			scenario{name: "undone at " + step, steps: steps, play: play(update("2"), play(before...),
				func(s *environment) { s.awaitPause(step) }, update("1"), healthy), want: want + " 0"},
			scenario{
				name: "aborted at " + step + " while half of the stable Pods are pending and an HPA scales", steps: steps,
				want: want + " 0",
				play: play(update("2"), play(before...), func(s *environment) {
					s.awaitPause(step)
					s.abortAtOnce(func() {
						s.player.LimitAvailable(s.namespace, "1", 2)
						s.scale(8)
					})
					s.player.RemoveLimit(s.namespace, "1")
				}, degraded),
			})
	}
	all = append(all, ofTwoTriggers()...)
	return append(all, scenario{
		name: "aborted while no stable Pod is ready", steps: twoSteps, want: "0 20 0",
		play: play(update("2"), func(s *environment) {
			s.awaitPause("20")
			s.player.LimitAvailable(s.namespace, "1", 0)
			s.awaitStatus("availableReplicas", 1) // of the canary; before that, the controller ignores the abort
			s.await("no stable Pod is ready", "[]", func() string { return s.subsets(stableService) })
			s.abort()
			s.reconciled()
			if got := s.last(s.router.resource, s.namespace, "web").text; got != "20" { // where would the requests go?
				s.t.Errorf("the controller has reconciled the abort without a ready stable Pod, and the weights are %q, want %q",
					got,
					"20")
			}
			s.player.RemoveLimit(s.namespace, "1")
		}, degraded),
	})
}

// abortAtOnce aborts after happens, and fails unless the next stored traffic split removes the canary's weight.
func (s *environment) abortAtOnce(happens func()) {
	s.t.Helper()
	if happens != nil {
		happens()
	}
	s.waitUntilIdle()
	begin, before := time.Now(), len(s.since(s.router.resource, s.namespace, "web", 0))
	s.abort()
	s.aborted = s.awaitSplit("0").Sub(begin)
	if first := s.since(s.router.resource, s.namespace, "web", before)[0].text; first != "0" {
		invariant.Broken(s.t, invariant.UnexpectedWeights, "the first weights after the abort are %q, want %q", first, "0")
	}
	s.await("the plugin's log of the abort", "true", func() string {
		s.inPlugin = tookToEnd(s.log())
		return strconv.FormatBool(s.inPlugin != "")
	})
}

// rollback returns to version 1, whose old Pods are gone, and lets one of its four Pods become available.
func rollback(s *environment) {
	s.t.Helper()
	s.awaitStatus("replicas", 4)
	s.player.LimitAvailable(s.namespace, "1", 1)
	s.update("1")
	s.awaitSplit("25")
}

// risingWeight lets the four Pods of a version become available one by one, from a first number on: the canary's weight
// never exceeds their share. The controller promotes the version when all are available.
func risingWeight(version string, first int32) func(*environment) {
	return func(s *environment) {
		s.t.Helper()
		for ready := first; ready < 4; ready++ {
			s.player.LimitAvailable(s.namespace, version, ready)
			s.awaitSplit(strconv.Itoa(int(ready) * 25))
		}
		s.player.RemoveLimit(s.namespace, version)
		s.awaitSplit("100")
	}
}

// nextSecond waits until the second after the creation of the newest ReplicaSet: the controller compares their ages in
// seconds.
func nextSecond(s *environment) {
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

// took matches the field of a plugin's log line with the duration of a call including all writes.
var took = regexp.MustCompile(` took=(\S+)`)

// tookToEnd returns the duration, in a controller's log, of the last call that removed the canary's weight; empty if
// there was none. The controller logs the plugins' lines with their fields in any order.
func tookToEnd(log string) string {
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		fields := took.FindStringSubmatch(line)
		if fields != nil && strings.Contains(line, "weights written") && strings.Contains(line+" ", " canaryWeight=0 ") {
			return fields[1]
		}
	}
	return ""
}

// subsets returns the subsets of a Service's Endpoints.
func (s *environment) subsets(service string) string {
	body, err := s.admin.Get().AbsPath("/api/v1/namespaces/" + s.namespace + "/endpoints/" + service).DoRaw(s.t.Context())
	switch {
	case err != nil:
		return err.Error()
	case strings.Contains(string(body), `"addresses"`):
		return "some"
	}
	return "[]"
}

// recreated deletes the Rollout during a canary and creates it again with the same version.
func recreated(s *environment) {
	s.update("2")
	s.awaitPause("20")
	s.waitUntilIdle()
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
