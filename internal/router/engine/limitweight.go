package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// limitWeight lowers the canary weight of request to the share of requests that the canary's ready Pods can carry (see
// router.CapacityOf). reason describes the limit; it is "" if the weight is not limited.
//
// The result is never below the weight that this canary already has, so the weight rises only, whatever its Pods do.
// The ready Pods are those of the canary Service's Endpoints, because the controller passes no number of them.
func (r *Reconciler[O]) limitWeight(
	ctx context.Context, request Request, config Configuration[O],
) (limited Request, reason string, err error) {
	split := request.Split
	capacity, ok := router.CapacityOf(request.Rollout, split, config.Common().WeightLimit)
	if !ok {
		return request, "", nil
	}
	current, err := r.currentWeight(ctx, request, config)
	if err != nil || current >= split.Canary.Weight {
		return request, "", err
	}
	ready, isKnown, err := r.promotions.ReadyPods(ctx, request.Rollout, split.Canary.Service,
		request.Rollout.Status.CurrentPodHash)
	weight := max(current, capacity.WeightOf(ready))
	if err != nil || !isKnown || weight >= split.Canary.Weight {
		return request, "", err
	}
	request.Split = split.WithCanaryWeight(weight)
	return request, fmt.Sprintf("the canary's weight is %d instead of %d, because %d of %d Pods of Service %q are ready; "+
		"it rises with them: check their readiness, or write %s: false in %s", weight, split.Canary.Weight, ready,
		capacity.Pods, split.Canary.Service, LimitWeightKey, ConfigField(r.routing.Type)), nil
}

// currentWeight returns the highest weight that the canary has in the Rollout's objects; 0 if they may still contain
// that of an earlier version.
func (r *Reconciler[O]) currentWeight(
	ctx context.Context, request Request, config Configuration[O],
) (uint32, error) {
	previous := request.Rollout.Status.Canary.Weights
	if previous == nil || previous.Canary.PodTemplateHash != request.Rollout.Status.CurrentPodHash {
		return 0, nil
	}
	targets, err := config.Targets(ctx, request)
	if err != nil {
		return 0, err
	}
	weights, err := survey(ctx, targets, func(t Target[O], object O) uint32 { return t.CanaryWeight(object) })
	return slices.Max(append(weights, 0)), err
}
