package router

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// WeightLimit decides which canary weights are limited to the share of requests that the ready canary Pods can carry.
type WeightLimit int

// The WeightLimits.
const (
	// LimitSkippedSteps limits the weights of a Rollout whose steps the controller has skipped: in a rollback within
	// spec.rollbackWindow, and after kubectl argo rollouts promote --skip-all-steps. The controller then sets the last
	// weight of the steps as soon as one canary Pod is available.
	LimitSkippedSteps WeightLimit = iota
	// LimitAlways also limits the weights of steps.
	LimitAlways
	// LimitNever limits no weight.
	LimitNever
)

// Capacity is how many ready Pods carry which canary weight.
type Capacity struct {
	// Pods is the number of Pods that carry Weight, at least 1.
	Pods int64
	// Weight is a canary weight.
	Weight uint32
}

// CapacityOf returns the Capacity by which the canary weight of split is limited. isLimited is false if it is not
// limited:
//
//   - outside of a canary, in an abort, and in a full promotion, where the controller keeps the weight
//   - with dynamicStableScale: the controller scales the stable Pods down by the weight that it has set, so they could
//     not carry the rest
//   - for the full weight, unless it is the last weight of the steps: the controller then sets it only for a canary with
//     all of its Pods
func CapacityOf(rollout *v1alpha1.Rollout, split Split, limit WeightLimit) (capacity Capacity, isLimited bool) {
	strategy, replicas := rollout.Spec.Strategy.Canary, rollout.Spec.Replicas // gob turns a pointer to 0 into nil
	if limit == LimitNever || split.Canary.Weight == 0 || !inCanary(rollout) || strategy.DynamicStableScale ||
		replicas == nil {
		return Capacity{}, false
	}
	current, total := currentStep(rollout), split.Total()
	hasSkipped := len(strategy.Steps) > 0 && current >= len(strategy.Steps)
	isFull := split.Canary.Weight == total
	if !hasSkipped && (limit != LimitAlways || isFull) || isFull && lastWeight(strategy.Steps) < total {
		return Capacity{}, false
	}
	capacity = Capacity{Pods: int64(*replicas), Weight: total}
	if pods, ok := canaryScale(rollout, current, total); ok && !hasSkipped {
		capacity = Capacity{Pods: pods, Weight: split.Canary.Weight}
	}
	return capacity, capacity.Pods > 0
}

// WeightOf returns the canary weight that a number of ready Pods carry.
func (c Capacity) WeightOf(ready int) uint32 {
	return uint32(min(int64(c.Weight), int64(c.Weight)*int64(ready)/c.Pods)) //nolint:gosec // at most Weight
}

// currentStep returns the index of the current step, the number of steps after the last one.
func currentStep(rollout *v1alpha1.Rollout) int {
	if index := rollout.Status.CurrentStepIndex; index != nil {
		return int(*index)
	}
	return 0 // gob turns a pointer to 0 into nil
}

// lastWeight returns the last weight of steps; 0 if there is none.
func lastWeight(steps []v1alpha1.CanaryStep) uint32 {
	for _, step := range slices.Backward(steps) {
		if step.SetWeight != nil {
			return uint32(max(0, *step.SetWeight))
		}
	}
	return 0
}

// canaryScale returns the number of canary Pods that the last step setCanaryScale up to the current step sets, like
// UseSetCanaryScale in argo-rollouts utils/replicaset/canary.go. ok is false if the number follows from the weight.
func canaryScale(rollout *v1alpha1.Rollout, current int, total uint32) (pods int64, ok bool) {
	steps := rollout.Spec.Strategy.Canary.Steps
	for _, step := range slices.Backward(steps[:min(current+1, len(steps))]) {
		switch scale := step.SetCanaryScale; {
		case scale == nil:
			continue
		case scale.MatchTrafficWeight:
			return 0, false
		case scale.Replicas != nil:
			return int64(*scale.Replicas), true
		case scale.Weight != nil:
			return (int64(*scale.Weight)*int64(*rollout.Spec.Replicas) + int64(total) - 1) / int64(total), true
		default:
			return 0, false
		}
	}
	return 0, false
}
