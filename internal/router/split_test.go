package router_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestSplitAddsUpToTheMaximum is a property test: a request is either rejected or the weights add up to the maximum.
func TestSplitAddsUpToTheMaximum(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	limits := []int32{1, 10, 100, 1000, math.MaxInt32}
	refused := 0
	for range 5000 {
		limit := limits[random.IntN(len(limits))]
		rollout := routertest.Rollout("test/none", "")
		rollout.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = &limit
		weight := random.Int32N(limit)
		others := make([]v1alpha1.WeightDestination, random.IntN(4))
		for i := range others {
			others[i] = v1alpha1.WeightDestination{ServiceName: "try", Weight: random.Int32N(limit/2 + 1)}
		}

		split, err := router.SplitFor(rollout, weight, others)

		asked := int64(weight)
		for _, other := range others {
			asked += int64(other.Weight)
		}
		if (err != nil) != (asked > int64(limit)) {
			t.Fatalf("%d of %d requested: %v", asked, limit, err)
		}
		if err != nil {
			refused++
			continue
		}
		sum := int64(split.Stable.Weight) + int64(split.Canary.Weight)
		for _, other := range split.Others {
			sum += int64(other.Weight)
		}
		if sum != int64(limit) || int64(split.Canary.Weight) != int64(weight) || split.IsStableOnly() != (asked == 0) {
			t.Fatalf("weight %d and %v of %d give %+v", weight, others, limit, split)
		}
	}
	if refused == 0 {
		t.Error("the generator never requested too much")
	}
}

func TestSplitForUnusualRollouts(t *testing.T) {
	t.Parallel()
	limited := func(limit int32) func(*v1alpha1.Rollout) {
		return func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = &limit }
	}
	both := func(r *v1alpha1.Rollout) {
		r.Spec.Strategy.Canary.PingPong = &v1alpha1.PingPongSpec{PingService: "ping", PongService: "pong"}
	}
	tests := map[string]struct {
		change func(*v1alpha1.Rollout)
		weight int32
		want   string // the stable Service and its weight, the canary Service and its weight; an error's text
	}{
		"everything": {weight: 100, want: "web-stable 0, web-canary 100"},
		"more than everything": {
			weight: 101,
			want:   `rollout "shop/web": the canary weight 101 is above 100: correct setWeight in spec.strategy.canary.steps`,
		},
		"100, whatever the maximum is": {
			change: limited(10), weight: 100,
			want: "web-stable 0, web-canary 10",
		},
		"above a smaller maximum, and not 100": {
			change: limited(10), weight: 20,
			want: "web-stable 0, web-canary 10",
		},
		"above a greater maximum": {
			change: limited(1000), weight: 1001,
			want: `rollout "shop/web": the canary weight 1001 is above 1000: correct setWeight in spec.strategy.canary.steps`,
		},
		"ping-pong and stable and canary Services": {change: both, weight: 20, want: "web-stable 80, web-canary 20"},
		"ping-pong and only one of them": {
			change: func(r *v1alpha1.Rollout) { both(r); r.Spec.Strategy.Canary.CanaryService = "" },
			weight: 20, want: `rollout "shop/web": spec.strategy.canary.canaryService is empty: name the Service there`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollout := routertest.Rollout("test/none", "")
			if test.change != nil {
				test.change(rollout)
			}
			split, err := router.SplitFor(rollout, test.weight, nil)
			got := fmt.Sprintf("%s %d, %s %d", split.Stable.Service, split.Stable.Weight, split.Canary.Service,
				split.Canary.Weight)
			if err != nil {
				got = err.Error()
			}
			if got != test.want || split.PingPong {
				t.Errorf("split is %s, want %s", got, test.want)
			}
		})
	}
}

// TestSplitForFillsInServiceNames covers destinations without a name: the controller sometimes writes an Experiment
// status from an outdated copy.
func TestSplitForFillsInServiceNames(t *testing.T) {
	t.Parallel()
	template := func(name, service string, weight int32) v1alpha1.RolloutExperimentTemplate {
		made := v1alpha1.RolloutExperimentTemplate{Name: name}
		if weight > 0 {
			made.Weight = &weight
		}
		if service != "" {
			made.Service = &v1alpha1.TemplateService{Name: service}
		}
		return made
	}
	type destinations = []v1alpha1.WeightDestination
	tests := map[string]struct {
		templates []v1alpha1.RolloutExperimentTemplate
		given     destinations
		want      string // the names, or an error's text
	}{
		"named": {
			[]v1alpha1.RolloutExperimentTemplate{template("a", "", 10)},
			destinations{{ServiceName: "own", Weight: 10}},
			"own",
		},
		"by default": {
			[]v1alpha1.RolloutExperimentTemplate{template("a", "", 10)},
			destinations{{Weight: 10}},
			"web-1-a",
		},
		"by the template": {
			[]v1alpha1.RolloutExperimentTemplate{template("a", "try", 10)},
			destinations{{Weight: 10}},
			"try",
		},
		"next to one without a weight": {
			[]v1alpha1.RolloutExperimentTemplate{template("x", "", 0), template("a", "", 10)},
			destinations{{Weight: 10}},
			"web-1-a",
		},
		"one of two": {
			[]v1alpha1.RolloutExperimentTemplate{template("a", "", 10), template("b", "", 10)},
			destinations{{ServiceName: "web-1-a", Weight: 10}, {Weight: 10}},
			"web-1-a web-1-b",
		},
		"both, in another order": {
			[]v1alpha1.RolloutExperimentTemplate{template("a", "", 10), template("b", "", 5)},
			destinations{{Weight: 5}, {Weight: 10}},
			"web-1-b web-1-a",
		},
		"none that it can be": {
			nil,
			destinations{{Weight: 10}},
			`rollout "shop/web": a Service of the experiment has no name yet, so its weight 10 cannot be set`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollout := routertest.Rollout("test/none", "")
			rollout.Status.Canary.CurrentExperiment, rollout.Status.CurrentStepIndex = "web-1", new(int32(1))
			rollout.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{{Experiment: &v1alpha1.RolloutExperimentStep{Templates: test.templates}}, {Pause: &v1alpha1.RolloutPause{}}}
			split, err := router.SplitFor(rollout, 20, test.given)
			var got []string
			for _, other := range split.Others {
				got = append(got, other.Service)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("Services are %q, want %q", got, test.want)
			}
		})
	}
}
