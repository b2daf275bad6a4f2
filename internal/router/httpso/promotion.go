package httpso

import (
	"context"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/promotion"
	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

// UpdateHash makes promotions safe, as package promotion has it, while the canary still has a share. The shares themselves need no hashes, because they name
// Services.
//
// It does nothing for aborted Rollouts, those scaled to zero, and those that say safePromotion: false. What is wrong with a Rollout's fields, or what may not be
// read, SetWeight reports, which comes next.
func (r *Router) UpdateHash(ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, _ []v1alpha1.WeightDestination) error {
	if !promotion.Due(rollout, canaryHash, stableHash) {
		return nil
	}
	want, err := intentOf(rollout, 0, nil)
	if err != nil || !want.safePromotion {
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	found, _, err := r.client.recent(ctx, want.object)
	switch {
	case resilience.Passes(err):
		return explain(want, err)
	case err != nil:
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	promoted := promotion.Promotion{
		Rollout: rollout, Stable: want.shares.Stable.Service, Canary: want.shares.Canary.Service, Hash: stableHash, ConfigField: configField,
		Judge: func(ctx context.Context) (moved, judged bool, err error) {
			return r.reportedMoved(ctx, want, stableHash)
		},
		Changed: func() <-chan struct{} { return r.client.cache.Changed(want.object) },
	}
	if _, isForeign := want.foreign(found); isForeign || !shared(found, want.shares.Canary.Service) {
		r.promotions.End(promoted)
		return nil
	}
	return r.promotions.Await(ctx, promoted)
}

// shared says whether found gives service a part of the requests.
func shared(found *object, service string) bool {
	backends, err := split.Parse(found.text)
	return err == nil && slices.ContainsFunc(backends, func(b split.Backend) bool { return b.Service == service && b.Weight > 0 })
}

// reportedMoved says whether the interceptor reports the stable Service to have the Pods of stableHash and no others. One that lives and knows the hashes is
// believed, because the proxies have what it has; else nothing is judged.
func (r *Router) reportedMoved(ctx context.Context, want intent, stableHash string) (moved, judged bool, err error) {
	found, _, err := r.client.recent(ctx, want.object)
	if err != nil {
		return false, false, err
	}
	if report := found.report; report != nil && len(report.StableHashes) > 0 && r.pulse.feel(ctx) == alive {
		return slices.Equal(report.StableHashes, []string{stableHash}), true, nil
	}
	return false, false, nil
}
