package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
)

// earliest and latest are the bounds of the kill, relative to the promotion. The path of a weight, from the controller
// to the last ACK, is within them.
const (
	earliest = -200 * time.Millisecond
	latest   = 300 * time.Millisecond
)

// settings are the values of the environment variables.
type settings struct {
	rounds     int
	seed       uint64
	components []component
}

func readSettings(t *testing.T) settings {
	t.Helper()
	s := settings{rounds: 20, seed: uint64(time.Now().UnixNano()), components: components()}
	var err error
	if text := os.Getenv("FAULTS_ROUNDS"); text != "" {
		if s.rounds, err = strconv.Atoi(text); err != nil || s.rounds < 1 {
			t.Fatalf("FAULTS_ROUNDS=%q: want the number of rounds for each part, such as 20", text)
		}
	}
	if text := os.Getenv("FAULTS_SEED"); text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FAULTS_SEED=%q: want a seed that an earlier run has printed", text)
		}
	}
	if text := os.Getenv("FAULTS_ONLY"); text != "" {
		s.components = slices.DeleteFunc(s.components,
			func(p component) bool { return !slices.Contains(strings.Split(text, ","), p.name) })
		if len(s.components) == 0 {
			t.Fatalf("FAULTS_ONLY=%q names no part; there are nothing, plugin, controller, interceptor, envoy, apiserver, etcd",
				text)
		}
	}
	return s
}

// Each component is repeatedly killed by `kill -9` around a promotion, under load. No request fails that a running
// proxy could have served. No place has a weight that was not requested. After the fault the requested weight is
// active. The times are reported.
func TestFaults(t *testing.T) {
	s := readSettings(t)
	out := t.Output()
	fmt.Fprintf(out, "seed %d (FAULTS_SEED), %d rounds for each part (FAULTS_ROUNDS)\n", s.seed, s.rounds)
	drop, err := filepath.Abs(filepath.Join("testdata", "kubelet.d"))
	if err != nil {
		t.Fatal(err)
	}
	b := testbed.Up(t, provider.Spec{ExtraArgs: []string{"kubelet=--config-dir=" + drop}})
	b.Deploy(t, nil)
	rolloutPlan := newPlan(s.rounds * len(s.components))
	if err := b.Reset(t.Context(), stableColor, rolloutPlan.steps()...); err != nil {
		t.Fatal(err)
	}
	if err := b.SetImage(t.Context(), canaryColor); err != nil {
		t.Fatal(err)
	}
	r := &run{testbed: b, plan: rolloutPlan, rng: rand.New(rand.NewPCG(s.seed, 0)), stalls: stall.Watch(t)}
	for _, p := range s.components {
		if !r.kill(t, p, s.rounds) {
			break
		}
	}
	fmt.Fprintln(out)
	if err := table(out, summarize(r.outcomes)); err != nil {
		t.Error(err)
	}
}

// run is a complete run.
type run struct {
	testbed  *testbed.Testbed
	plan     plan
	rng      *rand.Rand
	stalls   *stall.Detector
	next     int // index of the next round of the plan
	outcomes []outcome
}

// kill kills a component in that many rounds, and returns whether the run can continue.
func (r *run) kill(t *testing.T, p component, rounds int) bool {
	t.Helper()
	for n := 1; n <= rounds; n++ {
		drawn := draw{offset: earliest + time.Duration(r.rng.Int64N(int64(latest-earliest))), turn: r.rng.IntN(2)}
		o, err := round(t.Context(), r.testbed, r.stalls, p, r.plan, r.next, drawn)
		r.next++
		r.outcomes = append(r.outcomes, o)
		fmt.Fprintf(t.Output(), "%-11s %2d  %s\n", p.name, n, o)
		timeline := strings.Join(o.timeline, "\n")
		if err != nil {
			t.Errorf("%s, round %d: %v\n%s", p.name, n, err, timeline)
			return false
		}
		problems := o.problems()
		for _, problem := range problems {
			invariant.Broken(t, problem.kind, "%s, round %d: %s", p.name, n, problem.text)
		}
		if len(problems) > 0 {
			t.Log(timeline)
		}
	}
	return true
}
