package engine

import (
	"context"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// UpdateHash delays a promotion until the stable Service selects the promoted Pods (see rollouts.PromotionGate), if the
// canary has traffic. The weights themselves need no hashes, because they name Services.
//
// It does nothing for an aborted Rollout, one scaled to zero, and one with safePromotion: false. Invalid fields and
// missing permissions are reported by SetWeight, which the controller calls next.
func (r *Reconciler[O]) UpdateHash(
	ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, _ []v1alpha1.WeightDestination,
) error {
	if !rollouts.IsPromotion(rollout, canaryHash, stableHash) {
		return nil
	}
	request, config, err := r.request(rollout, 0, nil)
	if err != nil || !config.Common().SafePromotion {
		return nil //nolint:nilerr // SetWeight returns it
	}
	hasTraffic, err := r.hasCanaryTraffic(ctx, request, config)
	if kube.IsTransient(err) {
		return err
	}
	promotion := rollouts.Promotion{
		Rollout: rollout, Stable: request.Split.Stable.Service, Canary: request.Split.Canary.Service, Hash: stableHash,
		ConfigField: ConfigField(r.routing.Type),
	}
	if !hasTraffic {
		r.promotions.Finish(promotion)
		return nil
	}
	r.setStablePodsReporter(ctx, request, config, &promotion)
	return r.promotions.Wait(ctx, promotion)
}

// setStablePodsReporter takes the Pods of the stable Service from the first target that reports them.
func (r *Reconciler[O]) setStablePodsReporter(
	ctx context.Context, request Request, config Configuration[O], promotion *rollouts.Promotion,
) {
	targets, _ := config.Targets(ctx, request) // hasCanaryTraffic has handled the error
	for _, t := range targets {
		if reporter, ok := t.(StablePodsReporter); ok {
			promotion.Changed = reporter.Changed
			promotion.StableHasHash = reporter.StableHasHash
			return
		}
	}
}
