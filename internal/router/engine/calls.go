package engine

import (
	"context"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// SetWeight brings the Rollout's objects to these shares, and its managed routes to what its steps ask for; to none when the controller has removed
// them in this reconcile. An object that is so already is not written, and where a watch shows that, nothing is asked at all. Without anything to share and
// without managed routes, a missing object is no error.
func (r *Reconciler[O]) SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error {
	ask, configured, err := r.asked(rollout, weight, others)
	if err != nil {
		return err
	}
	return r.apply(ctx, ask, configured)
}

// SetHeaderRoute brings the Rollout's managed routes to what its steps up to the current one, which sets this route, ask for.
//
// The controller calls it also when it has just removed all managed routes, because the canary has no available Pod or the Rollout is aborted (its current step is the
// first one then). Requests would go to nobody, or to what was aborted, so nothing is set; the next SetWeight that finds an available canary sets it.
func (r *Reconciler[O]) SetHeaderRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) error {
	if route == nil {
		route = &v1alpha1.SetHeaderRoute{}
	}
	return r.setManaged(ctx, rollout, "setHeaderRoute", len(route.Match) > 0)
}

// SetMirrorRoute does for mirror routes what SetHeaderRoute does for header routes.
func (r *Reconciler[O]) SetMirrorRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) error {
	if route == nil {
		route = &v1alpha1.SetMirrorRoute{}
	}
	return r.setManaged(ctx, rollout, "setMirrorRoute", len(route.Match) > 0)
}

// setManaged carries out a step that sets or removes a managed route.
func (r *Reconciler[O]) setManaged(ctx context.Context, rollout *v1alpha1.Rollout, step string, sets bool) error {
	ask, configured, err := r.asked(rollout, 0, nil)
	if err != nil {
		return err
	}
	if sets {
		if err := configured.OffersManagedRoutes(rollout, step); err != nil {
			return r.unheard(ctx, rollout, err)
		}
	}
	if r.removals.Underway(rollout) {
		r.log.DebugContext(ctx, "managed routes were removed in this reconcile and stay so", "rollout", ask.Name(), "step", step)
		return nil
	}
	ask.Weigh = false
	return r.unheard(ctx, rollout, r.apply(ctx, ask, configured))
}

// unheard gives a Rollout an event for an error of a call whose errors the controller tells nobody, unless it may pass, and returns the error.
func (r *Reconciler[O]) unheard(ctx context.Context, rollout *v1alpha1.Rollout, err error) error {
	if err != nil && !kube.Passes(err) {
		r.board.Warn(ctx, rollout, "ManagedRouteError", err.Error())
	}
	return err
}

// RemoveManagedRoutes removes every header and mirror route of the Rollout and leaves the weights alone: the controller calls it in the middle of promotions too,
// before it sets the weight. Where an object is missing, there is nothing to remove.
//
// An abort is the exception. The controller sets no weight before every stable Pod is available, which may take minutes while an HPA scales (v1.10.1
// rollout/trafficrouting.go, checkReplicasAvailable). So the canary's share ends here as soon as one is ready, unless the Rollout says immediateAbort: false, or
// dynamicStableScale, with which the weight is to follow the stable Pods.
func (r *Reconciler[O]) RemoveManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout) error {
	r.removals.Begin(rollout)
	ask, configured, err := r.asked(rollout, 0, nil)
	if err != nil {
		return err
	}
	if ask.Weigh, err = r.abortsNow(ctx, ask, configured); err != nil {
		return err
	}
	return r.unheard(ctx, rollout, r.apply(ctx, ask, configured))
}

// abortsNow says whether an abort is to end the canary's share in this call.
func (r *Reconciler[O]) abortsNow(ctx context.Context, ask Ask, configured Configured[O]) (bool, error) {
	if !ask.Rollout.Status.Abort || ask.Rollout.Spec.Strategy.Canary.DynamicStableScale || !configured.Settings().ImmediateAbort {
		return false, nil
	}
	shared, err := r.shared(ctx, ask, configured)
	if !shared {
		return false, err
	}
	return r.promotions.HasReady(ctx, ask.Rollout, ask.Shares.Stable.Service)
}

// UpdateHash makes promotions safe, as package rollouts has it, while the canary still has a share. The shares themselves need no hashes, because they name
// Services.
//
// It does nothing for aborted Rollouts, those scaled to zero, and those that say safePromotion: false. What is wrong with a Rollout's fields, or what may not be
// read, SetWeight reports, which comes next.
func (r *Reconciler[O]) UpdateHash(ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, _ []v1alpha1.WeightDestination) error {
	if !rollouts.Due(rollout, canaryHash, stableHash) {
		return nil
	}
	ask, configured, err := r.asked(rollout, 0, nil)
	if err != nil || !configured.Settings().SafePromotion {
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	shared, err := r.shared(ctx, ask, configured)
	if kube.Passes(err) {
		return err
	}
	promoted := rollouts.Promotion{
		Rollout: rollout, Stable: ask.Shares.Stable.Service, Canary: ask.Shares.Canary.Service, Hash: stableHash, ConfigField: r.routing.ConfigField(),
	}
	if !shared {
		r.promotions.End(promoted)
		return nil
	}
	r.reporter(ctx, ask, configured, &promoted)
	return r.promotions.Await(ctx, promoted)
}

// reporter lets a promotion be judged by the first target that can.
func (r *Reconciler[O]) reporter(ctx context.Context, ask Ask, configured Configured[O], promoted *rollouts.Promotion) {
	targets, _ := configured.Targets(ctx, ask) // shared found them, a moment ago
	for _, t := range targets {
		if reporter, is := t.(PodsReporter); is {
			promoted.Changed = reporter.Changed
			promoted.Judge = func(ctx context.Context) (moved, judged bool, err error) {
				return reporter.StableHas(ctx, promoted.Hash)
			}
			return
		}
	}
}

// shared says whether anybody but the stable Service gets requests by any of the Rollout's objects. A missing object shares nothing.
func (r *Reconciler[O]) shared(ctx context.Context, ask Ask, configured Configured[O]) (bool, error) {
	targets, err := configured.Targets(ctx, ask)
	if err != nil && len(targets) == 0 {
		return false, err
	}
	shares := make([]bool, len(targets))
	errs := sideBySide(targets, func(i int, t Target[O]) error {
		found, _, err := t.Recent(ctx)
		if t.Missing(err) {
			return nil
		}
		if err != nil {
			return t.Explain(err)
		}
		shares[i] = t.Shared(found)
		return nil
	})
	for _, is := range shares {
		if is {
			return true, nil
		}
	}
	return false, Join(errs...)
}
