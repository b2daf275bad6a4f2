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

	"github.com/kedify/argo-rollouts-plugin/localcluster/test/internal/testbed"
)

// The kill comes from this long before the promotion to this long after it: the
// way of a weight, from the controller to the last ACK, lies in between.
const (
	earliest = -200 * time.Millisecond
	latest   = 300 * time.Millisecond
)

// settings are what the environment says.
type settings struct {
	rounds int
	seed   uint64
	parts  []part
}

func fromEnvironment(t *testing.T) settings {
	t.Helper()
	s := settings{rounds: 20, seed: uint64(time.Now().UnixNano()), parts: parts()}
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
		s.parts = slices.DeleteFunc(s.parts, func(p part) bool { return !slices.Contains(strings.Split(text, ","), p.name) })
		if len(s.parts) == 0 {
			t.Fatalf("FAULTS_ONLY=%q names no part; there are plugin, controller, interceptor, envoy, apiserver and etcd", text)
		}
	}
	return s
}

// Each part dies by `kill -9` around a promotion, again and again, under load.
// No request fails that a living proxy could have served, no weight appears
// anywhere that was not asked for, and soon after the fault the one that was
// asked for is in force.
func TestFaults(t *testing.T) {
	s := fromEnvironment(t)
	out := t.Output()
	fmt.Fprintf(out, "seed %d (FAULTS_SEED), %d rounds for each part (FAULTS_ROUNDS)\n", s.seed, s.rounds)
	drop, err := filepath.Abs(filepath.Join("testdata", "kubelet.d"))
	if err != nil {
		t.Fatal(err)
	}
	b := testbed.Up(t, "--extra-arg", "kubelet=--config-dir="+drop)
	b.Deploy(t, nil)
	play := newScript(s.rounds * len(s.parts))
	if err := b.Settle(t.Context(), stableColor, play.steps()...); err != nil {
		t.Fatal(err)
	}
	if err := b.SetImage(t.Context(), canaryColor); err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(s.seed, 0))
	var outcomes []outcome
	for n := range s.rounds * len(s.parts) {
		p := s.parts[n/s.rounds]
		drawn := chance{offset: earliest + time.Duration(dice.Int64N(int64(latest-earliest))), turn: dice.IntN(2)}
		o, err := round(t.Context(), b, p, play, n, drawn)
		outcomes = append(outcomes, o)
		fmt.Fprintf(out, "%-11s %2d  kill %+.3f s  down %.1f s  idle %.1f s  converged %.2f s  requests %d, failed %d, lost %d, at most %.0f ms late\n", p.name, n%s.rounds+1,
			drawn.offset.Seconds(), o.down.Seconds(), o.idle.Seconds(), o.converged.Seconds(), o.tally.Sent, o.tally.Failed, o.tally.Lost, o.lag.Seconds()*1000)
		for _, problem := range o.problems() {
			t.Errorf("%s, round %d: %s\n%s", p.name, n%s.rounds+1, problem, strings.Join(o.timeline, "\n"))
		}
		if err != nil {
			t.Errorf("%s, round %d: %v", p.name, n%s.rounds+1, err)
			break
		}
	}
	fmt.Fprintln(out)
	if err := table(out, sumUp(outcomes)); err != nil {
		t.Error(err)
	}
}
