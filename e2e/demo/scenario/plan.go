package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
)

// The names of the guide's objects.
const (
	app    = guide.App
	stable = guide.Stable
	canary = guide.Canary
)

// cluster returns the name of the Envoy cluster of a Service.
func cluster(service string) string { return clusterPrefix() + service }

// clusterPrefix returns the prefix of all cluster names of the HTTPScaledObject.
func clusterPrefix() string { return guide.Namespace + "/" + app + "/" }

// action is what the user does to reach a step.
type action int

const (
	setImage action = iota // start a canary
	promote                // continue after a pause
	waitFor                // the pause ends by itself
	abort                  // go back
)

// step is a state of a canary that the demo reaches, shows and measures.
type step struct {
	name   string
	action action
	// weight is the canary's weight. At the weights 0 and 100 no canary runs: there is no annotation, and the stable
	// Service gets all requests.
	weight int
	// color is the measured color.
	color string
	// within is the time limit for the annotation.
	within time.Duration
}

// split reports whether both sides of the step get requests.
func (s step) split() bool { return s.weight > 0 && s.weight < 100 }

// share returns the expected share of the step's color.
func (s step) share() float64 {
	if s.split() {
		return float64(s.weight) / 100
	}
	return 1
}

// shares returns the shares that Envoy has to run.
func (s step) shares() envoyadmin.Shares {
	if s.split() {
		return pair(1-s.share(), s.share())
	}
	return pair(1, 0)
}

// rollout is a canary from its start to its end.
type rollout struct {
	from, to string
	steps    []step
}

// String implements fmt.Stringer.
func (r rollout) String() string { return r.from + " → " + r.to }

// timedPauses returns the indexes, from 0, of the guide's steps that wait for a time.
func timedPauses() []int { return []int{3, 5} }

// plan returns the guide's canary, and a second canary that is aborted halfway. pause is the guide's timed pause.
// patience is the time limit of a step in addition to it.
func plan(pause, patience time.Duration) []rollout {
	percent := func(weight int, action action, color string, within time.Duration) step {
		return step{name: strconv.Itoa(weight) + " %", action: action, weight: weight, color: color, within: within}
	}
	return []rollout{
		{from: "blue", to: "yellow", steps: []step{
			percent(20, setImage, "yellow", patience),
			percent(50, promote, "yellow", patience),
			percent(80, waitFor, "yellow", pause+patience),
			{name: "done", action: waitFor, weight: 100, color: "yellow", within: pause + patience},
		}},
		{from: "yellow", to: "purple", steps: []step{
			percent(20, setImage, "purple", patience),
			percent(50, promote, "purple", patience),
			{name: "aborted", action: abort, weight: 0, color: "yellow", within: patience},
		}},
	}
}

// isRequestedSplit reports whether Envoy may run these shares: those of a step, or of one side alone. There are none
// before the first object exists.
func isRequestedSplit(shares envoyadmin.Shares) bool {
	if len(shares) == 0 || shares.Equal(pair(0, 1)) {
		return true
	}
	for _, r := range plan(0, 0) {
		if slices.ContainsFunc(r.steps, func(s step) bool { return shares.Equal(s.shares()) }) {
			return true
		}
	}
	return false
}

// shortShares formats Envoy's shares like an annotation: the shares of stable and canary in percent, or of stable alone
// if it has all requests. Any other shares are formatted by name.
func shortShares(shares envoyadmin.Shares) string {
	s, c := shares[cluster(stable)], shares[cluster(canary)]
	switch {
	case len(shares) == 0:
		return "–"
	case !shares.Equal(pair(s, c)):
		return shares.String()
	case c == 0:
		return fmt.Sprintf("%.4g", s*100)
	default:
		return fmt.Sprintf("%.4g/%.4g", s*100, c*100)
	}
}

// pair returns the shares of stable and canary, without those that are 0.
func pair(s, c float64) envoyadmin.Shares {
	shares := envoyadmin.Shares{}
	if s > 0 {
		shares[cluster(stable)] = s
	}
	if c > 0 {
		shares[cluster(canary)] = c
	}
	return shares
}
