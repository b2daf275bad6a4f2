package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

const (
	// StatusWait is how long VerifyWeight waits for the data plane within the call. The controller's next call is 10 s
	// later, and an unverified full canary weight is an error there.
	StatusWait = 200 * time.Millisecond
	// unverifiedEventAfter is how long a weight stays unverified before the Rollout gets a Warning Event.
	unverifiedEventAfter = 60 * time.Second
	// endpointsDelay is how long Endpoints may need to contain a Pod that has become available.
	endpointsDelay = 15 * time.Second
)

// VerifyWeight reports whether the weights are applied: every object is exactly as SetWeight writes it, and the data
// plane has applied it. It waits up to StatusWait for the latter. An error of the check is logged and the result is
// false: the controller retries after 10 s for false, but only minutes later for an error, and SetWeight, which it
// calls before each VerifyWeight, returns permanent errors. After a minute of false the Rollout gets a Warning Event.
//
// A limited weight (see limitWeight) is not verified: see limitedResult.
//
// With verifyDataPlane: false, a written weight is verified. A Rollout at rest does not wait, because no step depends
// on the result: only a weight that the data plane is known not to have applied is false.
func (r *Reconciler[O]) VerifyWeight(
	ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) (bool, error) {
	defer r.removals.Clear(rollout)
	request, config, err := r.request(rollout, weight, others)
	if err != nil {
		return false, err
	}
	name := fmt.Sprintf("rollout %q", request.Name())
	limited, reason, err := r.limitWeight(ctx, request, config)
	if reason != "" {
		r.reportUnverified(ctx, slog.LevelDebug, request, name, reason)
		return false, r.limitedResult(request, limited)
	}
	var targets []Target[O]
	if err == nil {
		targets, err = config.Targets(ctx, request)
	}
	if err != nil {
		r.reportUnverified(ctx, slog.LevelWarn, request, name, err.Error())
		return false, nil
	}
	verified := make([]bool, len(targets))
	_ = forEachTarget(targets, func(i int, t Target[O]) error {
		verified[i] = r.verify(ctx, request, config.Common(), t)
		return nil
	})
	return !slices.Contains(verified, false), nil
}

// limitedResult returns the error of a VerifyWeight whose weight is limited. False without an error is the result for a
// weight below the full one. For the full weight, false keeps the controller from adding Pods and from updating the
// status, but also has it call again within seconds, when the Endpoints contain a new Pod. So the result is false while
// all Pods exist and their readiness has just changed, and otherwise router.ErrUndecided. The controller promotes the
// canary only after all Pods are available, and calls again then.
func (r *Reconciler[O]) limitedResult(request, limited Request) error {
	if !request.IsFullCanary() {
		return nil
	}
	status := request.Rollout.Status
	elapsed, _ := r.waits.Elapsed("limit "+waitKey(request, ""),
		fmt.Sprint(limited.Split.Canary.Weight, status.AvailableReplicas))
	if status.UpdatedReplicas >= *request.Rollout.Spec.Replicas && elapsed < endpointsDelay {
		return nil
	}
	return router.ErrUndecided
}

// verify is VerifyWeight for one object.
func (r *Reconciler[O]) verify(ctx context.Context, request Request, settings Settings, t Target[O]) bool {
	object, err := r.getWritten(ctx, request, t)
	switch {
	case t.IsMissing(err) && request.IsIdle():
		return true
	case err != nil:
		r.reportUnverified(ctx, slog.LevelWarn, request, t.String(), t.Explain(err).Error())
		return false
	case !settings.VerifyDataPlane:
		return true
	}
	state, _ := t.DataPlaneState(ctx, object)
	if state == Applied {
		r.waits.End(waitKey(request, t.String()))
		return true
	}
	if request.IsAtRest() {
		_, accepted := t.AcceptUnverified(object, Wait{IsAtRest: true})
		return accepted || state == Unknown
	}
	if r.acceptsUnverified(ctx, request, t, object) {
		return true
	}
	state, reason := r.awaitDataPlane(ctx, t, object)
	if state == Applied {
		r.waits.End(waitKey(request, t.String()))
		return true
	}
	r.reportUnverified(ctx, slog.LevelDebug, request, t.String(), reason)
	return false
}

// getWritten returns an object that is as requested, otherwise the difference as an error. Three results are
// never returned from the cache: false costs 10 s, true for new weights completes a step, and true for the full canary
// weight ends the old Pods.
func (r *Reconciler[O]) getWritten(ctx context.Context, request Request, t Target[O]) (O, error) {
	object, cached, err := t.Get(ctx)
	if err != nil {
		return object, err
	}
	err = t.CheckWritten(ctx, object)
	if cached && (err != nil || request.IsFullCanary() || request.changesSplit()) {
		if object, err = t.GetLive(ctx); err == nil {
			err = t.CheckWritten(ctx, object)
		}
	}
	return object, err
}

// awaitDataPlane waits up to StatusWait for the data plane. It ends early if the object is no longer as requested.
func (r *Reconciler[O]) awaitDataPlane(ctx context.Context, t Target[O], object O) (DataPlaneState, string) {
	last, err := t.Await(ctx, object, func(o O) bool {
		state, _ := t.DataPlaneState(ctx, o)
		return state == Applied || t.CheckWritten(ctx, o) != nil
	})
	if err == nil {
		err = t.CheckWritten(ctx, last)
	}
	if err != nil {
		return Unknown, t.Explain(err).Error()
	}
	return t.DataPlaneState(ctx, last)
}

// acceptsUnverified reports whether a weight that the data plane has not applied counts as verified nevertheless. If
// so, the Rollout gets a Warning Event.
func (r *Reconciler[O]) acceptsUnverified(ctx context.Context, request Request, t Target[O], object O) bool {
	elapsed, _ := r.waits.Elapsed(waitKey(request, t.String()), request.fingerprint())
	warning, accepted := t.AcceptUnverified(object, Wait{Elapsed: elapsed, IsFullCanary: request.IsFullCanary()})
	if accepted {
		r.events.Warn(ctx, request.Rollout, warning.Reason, warning.Message)
	}
	return accepted
}

// reportUnverified logs why a weight is not verified, and emits a Warning Event after unverifiedEventAfter.
func (r *Reconciler[O]) reportUnverified(
	ctx context.Context, level slog.Level, request Request, object, why string,
) {
	elapsed, _ := r.waits.Elapsed(waitKey(request, object), request.fingerprint())
	r.log.Log(ctx, level, "weights are not verified", "rollout", request.Name(), "object", object, "why", why)
	if elapsed >= unverifiedEventAfter && !request.IsAtRest() {
		message := fmt.Sprintf("%s: weights not verified for %v: %s", object, elapsed.Round(time.Second), why)
		r.events.WarnTopic(ctx, request.Rollout, reasons.WeightNotVerified, object, message)
	}
}

// waitKey identifies a wait across calls.
func waitKey(request Request, object string) string {
	return "verify " + string(request.Rollout.UID) + " " + request.Name() + " " + object
}
