package router_test

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// setWeight and pause are steps.
func setWeight(weight int32) v1alpha1.CanaryStep { return v1alpha1.CanaryStep{SetWeight: &weight} }

func pause() v1alpha1.CanaryStep { return v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}} }

// setCanaryScale is a step.
func setCanaryScale(scale v1alpha1.SetCanaryScale) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{SetCanaryScale: &scale}
}

func TestCapacityOfACanary(t *testing.T) {
	t.Parallel()
	steps := []v1alpha1.CanaryStep{setWeight(20), pause(), setWeight(80), pause()}
	full := []v1alpha1.CanaryStep{setWeight(20), pause(), setWeight(100), pause()}
	byHand := []v1alpha1.CanaryStep{setCanaryScale(v1alpha1.SetCanaryScale{Replicas: new(int32(2))}), setWeight(50)}
	byWeight := []v1alpha1.CanaryStep{setCanaryScale(v1alpha1.SetCanaryScale{Weight: new(int32(25))}), setWeight(50)}
	matching := []v1alpha1.CanaryStep{
		setCanaryScale(v1alpha1.SetCanaryScale{Replicas: new(int32(1))}),
		setCanaryScale(v1alpha1.SetCanaryScale{MatchTrafficWeight: true}), setWeight(50),
	}
	tests := map[string]struct {
		steps  []v1alpha1.CanaryStep
		index  int32
		change func(*v1alpha1.Rollout)
		weight int32
		limit  router.WeightLimit
		ready  int
		want   uint32 // the weight
	}{
		"the steps were skipped":               {steps: steps, index: 4, weight: 80, ready: 1, want: 10},
		"half of the Pods":                     {steps: steps, index: 4, weight: 80, ready: 5, want: 50},
		"rounded down":                         {steps: steps, index: 4, weight: 80, ready: 5, change: replicas(7), want: 71},
		"no Pod":                               {steps: steps, index: 4, weight: 80, want: 0},
		"enough Pods":                          {steps: steps, index: 4, weight: 80, ready: 8, want: 80},
		"more Pods than wanted":                {steps: steps, index: 4, weight: 80, ready: 30, want: 80},
		"one replica":                          {steps: steps, index: 4, weight: 80, ready: 1, change: replicas(1), want: 80},
		"maxTrafficWeight 1000":                {steps: steps, index: 4, weight: 80, ready: 0, change: maxWeight(1000), want: 0},
		"maxTrafficWeight 1000, one Pod":       {steps: steps, index: 4, weight: 800, ready: 1, change: maxWeight(1000), want: 100},
		"the steps were skipped, never":        {steps: steps, index: 4, weight: 80, ready: 1, limit: router.LimitNever, want: 80},
		"a step":                               {steps: steps, index: 1, weight: 20, ready: 1, want: 20},
		"a step, always":                       {steps: steps, index: 1, weight: 20, ready: 1, limit: router.LimitAlways, want: 10},
		"a step with its Pods, always":         {steps: steps, index: 1, weight: 20, ready: 2, limit: router.LimitAlways, want: 20},
		"the full weight of a step, always":    {steps: full, index: 2, weight: 100, ready: 1, limit: router.LimitAlways, want: 100},
		"the full weight at the end":           {steps: steps, index: 4, weight: 100, ready: 9, want: 100},
		"the last weight of the steps is full": {steps: full, index: 4, weight: 100, ready: 1, want: 10},
		"scaled by a step, always":             {steps: byHand, index: 1, weight: 50, ready: 1, limit: router.LimitAlways, want: 25},
		"scaled by a step, complete":           {steps: byHand, index: 1, weight: 50, ready: 2, limit: router.LimitAlways, want: 50},
		"scaled by a step that was skipped":    {steps: byHand, index: 2, weight: 50, ready: 2, want: 20},
		"scaled by weight, rounded up, always": {steps: byWeight, index: 1, weight: 50, ready: 2, limit: router.LimitAlways, want: 33},
		"scaled by weight, complete":           {steps: byWeight, index: 1, weight: 50, ready: 3, limit: router.LimitAlways, want: 50},
		"scaled with the traffic, always":      {steps: matching, index: 2, weight: 50, ready: 2, limit: router.LimitAlways, want: 20},
		"no steps":                             {weight: 50, ready: 1, want: 50},
		"aborted": {steps: steps, index: 4, weight: 80, ready: 1, want: 80, change: func(r *v1alpha1.Rollout) {
			r.Status.Abort = true
		}},
		"promoted in full": {steps: steps, index: 4, weight: 80, ready: 1, want: 80, change: func(r *v1alpha1.Rollout) {
			r.Status.PromoteFull = true
		}},
		"outside of a canary": {steps: steps, index: 4, weight: 80, ready: 1, want: 80, change: func(r *v1alpha1.Rollout) {
			r.Status.StableRS = r.Status.CurrentPodHash
		}},
		"dynamicStableScale": {steps: steps, index: 4, weight: 80, ready: 1, want: 80, change: func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.DynamicStableScale = true
		}},
		"scaled to zero": {steps: steps, index: 4, weight: 80, ready: 1, want: 80, change: func(r *v1alpha1.Rollout) {
			r.Spec.Replicas = nil
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rollout := withServices(inTheMiddle(test.index, test.steps...))
			rollout.Spec.Replicas = new(int32(10))
			if test.change != nil {
				test.change(rollout)
			}
			split, err := router.SplitFor(rollout, test.weight, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := split.Canary.Weight
			if capacity, isLimited := router.CapacityOf(rollout, split, test.limit); isLimited {
				got = min(got, capacity.WeightOf(test.ready))
			}
			if got != test.want {
				t.Errorf("weight %d, want %d", got, test.want)
			}
			if limited := split.WithCanaryWeight(got); limited.Total() != split.Total() {
				t.Errorf("the limited weights add up to %d, want %d", limited.Total(), split.Total())
			}
		})
	}
}

// TestWeightOfReadyPodsIsMonotone: with more ready Pods the weight is never lower, and never above that of all Pods.
func TestWeightOfReadyPodsIsMonotone(t *testing.T) {
	t.Parallel()
	for _, capacity := range []router.Capacity{
		{Pods: 1, Weight: 100},
		{Pods: 3, Weight: 100},
		{Pods: 7, Weight: 1000},
		{Pods: 1000, Weight: 1},
		{Pods: 1 << 31, Weight: 1<<31 - 1},
	} {
		last := uint32(0)
		for ready := range 2000 {
			weight := capacity.WeightOf(ready)
			if weight < last || weight > capacity.Weight || int64(ready) >= capacity.Pods && weight != capacity.Weight {
				t.Fatalf("%+v: weight %d of %d Pods, %d of one Pod less", capacity, weight, ready, last)
			}
			last = weight
		}
	}
}

// withServices adds the two Services.
func withServices(rollout *v1alpha1.Rollout) *v1alpha1.Rollout {
	rollout.Spec.Strategy.Canary.StableService, rollout.Spec.Strategy.Canary.CanaryService = "web-stable", "web-canary"
	return rollout
}

// replicas and maxWeight change a Rollout.
func replicas(count int32) func(*v1alpha1.Rollout) {
	return func(rollout *v1alpha1.Rollout) { rollout.Spec.Replicas = &count }
}

func maxWeight(weight int32) func(*v1alpha1.Rollout) {
	return func(rollout *v1alpha1.Rollout) {
		rollout.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = &weight
	}
}
