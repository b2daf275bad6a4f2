package engine

import (
	"context"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// SetWeight writes these weights to the Rollout's objects, and the managed routes of its steps; no managed routes if
// the controller has removed them in the current reconcile. The canary weight may be limited: see limitWeight. It does
// not write an object that is as requested, and sends no request if a watch shows that. A missing object is no error if
// there is no canary traffic and no managed route.
func (r *Reconciler[O]) SetWeight(
	ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) error {
	request, config, err := r.request(rollout, weight, others)
	if err != nil {
		return err
	}
	limited, limit := request, ""
	err = kube.Retry(ctx, func(ctx context.Context) (err error) {
		limited, limit, err = r.limitWeight(ctx, request, config)
		return err
	})
	if err != nil {
		return err
	}
	if limit != "" {
		r.events.WarnTopic(ctx, rollout, reasons.WeightLimited, request.Split.Canary.Service, limit)
	}
	return r.apply(ctx, limited, config)
}

// SetHeaderRoute writes the managed routes of the Rollout's steps up to the current one, which sets this route.
//
// The controller also calls it directly after RemoveManagedRoutes, if the canary has no available Pod or the Rollout is
// aborted (the current step is then the first one). A route would send requests to no Pod, or to the aborted version,
// so nothing is written. The next SetWeight that finds an available canary writes the route.
func (r *Reconciler[O]) SetHeaderRoute(
	ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute,
) error {
	if route == nil {
		route = &v1alpha1.SetHeaderRoute{}
	}
	return r.setManagedRoutes(ctx, rollout, "setHeaderRoute", len(route.Match) > 0)
}

// SetMirrorRoute is SetHeaderRoute for mirror routes.
func (r *Reconciler[O]) SetMirrorRoute(
	ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute,
) error {
	if route == nil {
		route = &v1alpha1.SetMirrorRoute{}
	}
	return r.setManagedRoutes(ctx, rollout, "setMirrorRoute", len(route.Match) > 0)
}

// setManagedRoutes carries out a step that adds or removes a managed route.
func (r *Reconciler[O]) setManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout, step string, adds bool) error {
	request, config, err := r.request(rollout, 0, nil)
	if err != nil {
		return r.warnManagedRoutes(ctx, rollout, err)
	}
	if adds {
		if err := config.CheckManagedRoutes(rollout, step); err != nil {
			return r.warnManagedRoutes(ctx, rollout, err)
		}
	}
	if r.removals.IsRemoved(rollout) {
		r.log.DebugContext(ctx, "managed routes were removed in this reconcile, not setting them again", "rollout",
			request.Name(), "step", step)
		return nil
	}
	request.SetsWeights = false
	return r.warnManagedRoutes(ctx, rollout, r.apply(ctx, request, config))
}

// warnManagedRoutes emits a Warning Event for a permanent error and returns the error: the controller emits none for
// errors of this call. It is the first call of a canary, and the only one until a Pod of the canary is available (v1.10.1
// rollout/trafficrouting.go), so an invalid configuration is reported by this Event only.
func (r *Reconciler[O]) warnManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout, err error) error {
	if err != nil && !kube.IsTransient(err) {
		r.events.Warn(ctx, rollout, reasonOf(err), err.Error())
	}
	return err
}

// reasonOf returns the reason of the Event about a permanent error.
func reasonOf(err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return reasons.PermissionMissing
	case apierrors.IsNotFound(err):
		return reasons.TargetNotFound
	default:
		return reasons.Of(err, reasons.InvalidTrafficRouting)
	}
}

// RemoveManagedRoutes removes all header and mirror routes of the Rollout and leaves the weights as they are: the
// controller also calls it during promotions, before it sets the weight. A missing object is no error.
//
// An abort is the exception. The controller sets no weight until all stable Pods are available, which may take minutes
// while an HPA scales (v1.10.1 rollout/trafficrouting.go, checkReplicasAvailable). So the canary's weight is removed
// here as soon as one stable Pod is ready, unless the Rollout configures immediateAbort: false, or dynamicStableScale,
// with which the weight follows the stable Pods.
func (r *Reconciler[O]) RemoveManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout) error {
	r.removals.Record(rollout)
	request, config, err := r.request(rollout, 0, nil)
	if err == nil {
		request.SetsWeights, err = r.abortsImmediately(ctx, request, config)
	}
	if err != nil {
		return r.warnManagedRoutes(ctx, rollout, err)
	}
	return r.warnManagedRoutes(ctx, rollout, r.apply(ctx, request, config))
}

// abortsImmediately reports whether this call of an aborted Rollout removes the canary's weight.
func (r *Reconciler[O]) abortsImmediately(ctx context.Context, request Request, config Configuration[O]) (bool, error) {
	dynamicStableScale := request.Rollout.Spec.Strategy.Canary.DynamicStableScale
	if !request.Rollout.Status.Abort || dynamicStableScale || !config.Common().ImmediateAbort {
		return false, nil
	}
	hasTraffic, err := r.hasCanaryTraffic(ctx, request, config)
	if !hasTraffic {
		return false, err
	}
	return r.promotions.HasReadyEndpoint(ctx, request.Rollout, request.Split.Stable.Service)
}

// hasCanaryTraffic reports whether any of the Rollout's objects routes requests to a Service other than the stable one.
// A missing object does not.
func (r *Reconciler[O]) hasCanaryTraffic(ctx context.Context, request Request, config Configuration[O]) (bool, error) {
	targets, err := config.Targets(ctx, request)
	if err != nil && len(targets) == 0 {
		return false, err
	}
	results, err := survey(ctx, targets, func(t Target[O], object O) bool { return t.HasCanaryTraffic(object) })
	if slices.Contains(results, true) {
		return true, nil
	}
	return false, err
}

// survey returns what look returns for each target's object, and the zero value for a missing object.
func survey[O kube.State, R any](
	ctx context.Context, targets []Target[O], look func(t Target[O], object O) R,
) ([]R, error) {
	results := make([]R, len(targets))
	errs := forEachTarget(targets, func(i int, t Target[O]) error {
		object, _, err := t.Get(ctx)
		if t.IsMissing(err) {
			return nil
		}
		if err != nil {
			return t.Explain(err)
		}
		results[i] = look(t, object)
		return nil
	})
	return results, Join(errs...)
}
