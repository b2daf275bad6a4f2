package envoy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/visitors"
)

// stickyObjectOf returns stickyObject with a canary whose weight is one of most, the maxTrafficWeight of the Rollout.
func stickyObjectOf(weight, most uint32, annotations map[string]string) *httpv1alpha1.HTTPScaledObject {
	return kit.WithSplit(stickyObject(-1, annotations), split.Backend{Service: "shop-stable", Weight: most - weight},
		split.Backend{Service: "shop-canary", Weight: weight})
}

// TestStickySmallWeights: a canary gets its share of the users also at 1 %, and with a maxTrafficWeight of 1000. Users
// move to the canary only while its weight grows, and back only while it shrinks.
func TestStickySmallWeights(t *testing.T) {
	t.Parallel()
	type step struct{ weight, most uint32 }
	for name, steps := range map[string][]step{
		"of 100":       {{1, 100}, {2, 100}, {1, 100}, {0, 100}},
		"of 1000":      {{1, 1000}, {5, 1000}, {10, 1000}, {333, 1000}, {1000, 1000}, {10, 1000}, {0, 1000}},
		"of 1,000,000": {{1, 1_000_000}, {10_000, 1_000_000}, {999_999, 1_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := stickyBackends(t)
			at := func(s step) resolve.Inputs {
				return newInputs(t, backends, stickyObjectOf(s.weight, s.most, stickyBy("cookie: {}")))
			}
			zero := step{0, steps[0].most}
			s := serve(t, "DELTA_GRPC", translated(t, at(zero), translate.DefaultOptions()))
			s.apply(t, at(zero))
			c := s.newCrowd(t, "HTTP/1.1", 2000)
			last, share := c.visit(t, stickyURL), 0.0
			if last.Count("shop-canary") > 0 {
				t.Errorf("%d users on a canary without weight", last.Count("shop-canary"))
			}
			for _, step := range steps {
				s.apply(t, at(step))
				what := fmt.Sprintf("weight %d of %d", step.weight, step.most)
				now, before := c.visit(t, stickyURL), share
				share = float64(step.weight) / float64(step.most)
				now.checkMoves(t, what, last, map[bool]string{true: toCanary, false: toStable}[share > before])
				now.checkShare(t, what, share)
				last = now
			}
		})
	}
}

// checkShare checks that a canary has its share of the users, within three standard deviations.
func (v visits) checkShare(t *testing.T, what string, share float64) {
	t.Helper()
	got, deviation := v.Count("shop-canary"), v.Sigmas("shop-canary", share)
	t.Logf("%s: %d of %d users on the canary, %.1f standard deviations from its weight", what, got, len(v.Backends),
		deviation)
	if deviation > visitors.MostSigmas {
		t.Errorf("%s: %d of %d users on the canary", what, got, len(v.Backends))
	}
}

// through returns the same users, with their cookies, whose requests go through another proxy.
func (s *served) through(t *testing.T, c *crowd, protocol string) *crowd {
	t.Helper()
	return &crowd{c.Through(s.crowdTransport(t, protocol))}
}

// TestStickyUsersOfTwoProxies: users stay on their version, and with session affinity on their Pod, whichever proxy
// receives their requests. While only one proxy has the next weight, the proxies differ only for users who move with it.
func TestStickyUsersOfTwoProxies(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"stickiness by cookie":        stickyBy("cookie: {}"),
		"stickiness by header":        stickyBy("header: X-User"),
		"stickiness by address":       stickyBy("sourceAddress: {}"),
		"session affinity":            sessionBy("cookie: {}"),
		"session affinity by address": sessionBy("sourceAddress: {}"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := podsOf(t, "shop-stable", "shop-canary")
			at := func(weight int) resolve.Inputs { return pods(stickyObject(weight, annotations)) }
			a := serve(t, "DELTA_GRPC", translated(t, at(20), trusting()))
			b := serve(t, "DELTA_GRPC", translated(t, at(20), trusting()))
			a.applyTrusting(t, at(20))
			b.applyTrusting(t, at(20))
			users := a.newKnownCrowd(t, "HTTP/1.1", 300)
			others := b.through(t, users, "HTTP/2")
			checkStays := func(what string, now, before visits) {
				t.Helper()
				if !strings.HasPrefix(name, "session") { // Any Pod of the version may answer.
					now, before = now.versions(), before.versions()
				}
				now.checkMoves(t, what, before, "")
			}
			first := users.visit(t, stickyURL)
			second := others.visit(t, stickyURL)
			checkStays("through the second proxy", second, first)
			if second.Cookies() > 0 {
				t.Errorf("the second proxy set %d cookies again", second.Cookies())
			}
			a.applyTrusting(t, at(50))
			ahead := users.visit(t, stickyURL).versions()
			ahead.checkMoves(t, "the first proxy has the next weight", first.versions(), toCanary)
			checkStays("the second proxy has the weight before", others.visit(t, stickyURL), first)
			b.applyTrusting(t, at(50))
			others.visit(t, stickyURL).versions().checkMoves(t, "both have the next weight", ahead, "")
		})
	}
}

// versions returns the visits with the Services of the Pods that have answered.
func (v visits) versions() visits {
	services := v
	services.Backends = make([]string, len(v.Backends))
	for i, pod := range v.Backends {
		services.Backends[i] = serviceOfPod(pod)
	}
	return services
}

// TestClientIPInACanary: with sessionAffinity ClientIP of the stable Service, and in a namespace of proxies behind an
// Ingress, only users that the canary gets move. Within a version each user stays on one Pod. ClientIP of the canary's
// Service alone changes nothing.
func TestClientIPInACanary(t *testing.T) {
	t.Parallel()
	pods := podsOf(t, "shop-stable", "shop-canary")
	at := func(weight int, isStable, isCanary bool) resolve.Inputs {
		inputs := pods(stickyObject(weight, nil))
		inputs.Services[0].HasClientIPAffinity, inputs.Services[1].HasClientIPAffinity = isStable, isCanary
		return inputs
	}
	s := serve(t, "DELTA_GRPC", translated(t, at(-1, true, true), trusting()))
	s.applyTrusting(t, at(-1, true, true))
	for _, protocol := range protocols() {
		c := s.newKnownCrowd(t, protocol, 300)
		s.applyTrusting(t, at(-1, true, true))
		last, weightBefore := c.visit(t, stickyURL), 0
		for _, weight := range []int{1, 20, 50, 100, 20, -1} {
			what := fmt.Sprintf("%s, weight %d", protocol, weight)
			s.applyTrusting(t, at(weight, true, weight%2 == 0))
			now := c.visit(t, stickyURL)
			for move := range now.Moves(last.Visits) {
				from, to, _ := strings.Cut(move, " → ")
				if serviceOfPod(from) == serviceOfPod(to) {
					t.Errorf("%s: a user moved between Pods of one version: %s", what, move)
				}
			}
			allowed := map[bool]string{true: toCanary, false: toStable}[weight > weightBefore]
			now.versions().checkMoves(t, what, last.versions(), allowed)
			now.versions().checkShare(t, what, float64(max(0, weight))/100)
			c.visit(t, stickyURL).checkMoves(t, what+", second request", now, "")
			if now.Cookies() > 0 {
				t.Errorf("%s: %d cookies were set", what, now.Cookies())
			}
			last, weightBefore = now, weight
		}
	}
	s.applyTrusting(t, at(50, false, true))
	c := s.newKnownCrowd(t, "HTTP/1.1", 100)
	first := c.visit(t, stickyURL)
	if len(c.visit(t, stickyURL).Moves(first.Visits)) == 0 {
		t.Error("ClientIP of the canary's Service alone kept all users on their Pods")
	}
}

// TestStickyAddressWithoutAnIngress: without a trusted Ingress, the address is that of the connection, and a client
// cannot select its version by X-Forwarded-For.
func TestStickyAddressWithoutAnIngress(t *testing.T) {
	t.Parallel()
	inputs := newInputs(t, stickyBackends(t), stickyObject(50, stickyBy("sourceAddress: {}")))
	s := serve(t, "DELTA_GRPC", translated(t, inputs, translate.DefaultOptions()))
	s.apply(t, inputs)
	sides := map[string]int{}
	for i := range 40 {
		header := http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i)}}
		sides[s.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", header, nil).backend()]++
	}
	if len(sides) != 1 || sides[""] > 0 {
		t.Errorf("one client was answered by %v", sides)
	}
}

// TestStickyExperimentGrows: while the weight of an experiment grows next to a canary, users only move from the stable
// version to the experiment. While the canary's weight grows, none moves away from the canary.
func TestStickyExperimentGrows(t *testing.T) {
	t.Parallel()
	const toExperiment, ahead = "shop-stable → shop-a", "shop-a → shop-canary"
	backends := append(stickyBackends(t), startBackend(t, "shop-a"))
	at := func(canary, experiment uint32) resolve.Inputs {
		return newInputs(t, backends, kit.WithSplit(stickyObject(-1, stickyBy("cookie: {}")),
			split.Backend{Service: "shop-stable", Weight: 100 - canary - experiment},
			split.Backend{Service: "shop-canary", Weight: canary}, split.Backend{Service: "shop-a", Weight: experiment}))
	}
	s := serve(t, "DELTA_GRPC", translated(t, at(20, 0), translate.DefaultOptions()))
	s.apply(t, at(20, 0))
	c := s.newCrowd(t, "HTTP/1.1", 500)
	last := c.visit(t, stickyURL)
	for _, step := range []struct {
		canary, experiment uint32
		allowed            []string
	}{
		{20, 10, []string{toExperiment}},
		{20, 40, []string{toExperiment}},
		{40, 40, []string{toExperiment, ahead}},
		{40, 0, []string{"shop-a → shop-stable"}},
	} {
		s.apply(t, at(step.canary, step.experiment))
		now := c.visit(t, stickyURL)
		moves := now.Moves(last.Visits)
		if len(moves) == 0 {
			t.Errorf("%+v: no user moved", step)
		}
		for _, move := range step.allowed {
			delete(moves, move)
		}
		if len(moves) > 0 {
			t.Errorf("%+v: users moved: %v", step, moves)
		}
		now.checkShare(t, fmt.Sprintf("%+v", step), float64(step.canary)/100)
		last = now
	}
}

// TestStickyHTTP10: a client of HTTP/1.0 receives the cookie once, and stays on its version with it.
func TestStickyHTTP10(t *testing.T) {
	t.Parallel()
	inputs := newInputs(t, stickyBackends(t), stickyObject(50, stickyBy("cookie: {name: side}")))
	s := serve(t, "DELTA_GRPC", translated(t, inputs, translate.DefaultOptions()))
	s.apply(t, inputs)
	sides := map[string]int{}
	for range 30 {
		first := dial(t, s.address).send("GET / HTTP/1.0", "Host: shop.example.com")
		cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
		sides[first.backend()]++
		for range 3 {
			again := dial(t, s.address).send("GET / HTTP/1.0", "Host: shop.example.com", "Cookie: "+cookie)
			if again.backend() != first.backend() || len(again.header.Values("Set-Cookie")) > 0 {
				t.Errorf("%q: by %s, then %+v", cookie, first.backend(), again)
			}
		}
	}
	if len(sides) != 2 || sides[""] > 0 {
		t.Errorf("answered by %v", sides)
	}
}
