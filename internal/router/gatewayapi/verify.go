package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

const (
	// statusWait is how long VerifyWeight waits inside the call for the Gateways: asked again by the controller costs 10 s, and at the full weight an error.
	statusWait = 200 * time.Millisecond
	// statusLimit is how long a route may stay without an acceptance of its current generation before its spec alone is judged.
	statusLimit = 60 * time.Second
)

// VerifyWeight says whether requests are shared so: every route is exactly as SetWeight writes it, and its Gateways have accepted that, by their conditions in its
// status for the route's current generation. It waits 200 ms for the latter. Whatever keeps it from finding out is logged and answered with false,
// because the controller asks about false again after 10 s but about an error only minutes later; and SetWeight, which it calls before each VerifyWeight, reports
// what does not pass.
//
// Where the Rollout says verifyRouteStatus: false, the spec alone is judged. So it is 60 s after a Gateway should have accepted it, with a Warning event.
func (r *Router) VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool, error) {
	defer r.removals.End(rollout)
	want, err := r.wanted(rollout, weight, others)
	if err != nil {
		return false, err
	}
	targets, err := r.targets(ctx, want)
	if err != nil {
		r.log.WarnContext(ctx, "weights cannot be verified now", "rollout", want.rollout, "error", err.Error())
		return false, nil
	}
	verified := make([]bool, len(targets))
	err = sideBySide(targets, func(i int, t target) error {
		verified[i] = r.verify(ctx, rollout, want, t)
		return nil
	})
	return !slices.Contains(verified, false), err
}

// verify is VerifyWeight for one route.
func (r *Router) verify(ctx context.Context, rollout *v1alpha1.Rollout, want intent, t target) bool {
	found, asked, err := r.held(ctx, want, t)
	switch {
	case isMissing(err) && want.idle():
		return true
	case errors.Is(err, route.ErrDiffers):
		r.log.InfoContext(ctx, "the route is not as it was written", "rollout", want.rollout, "route", t.String(), "difference", err.Error())
		return false
	case err != nil:
		r.log.WarnContext(ctx, "weights cannot be verified now", "rollout", want.rollout, "error", explain(want, t, err).Error())
		return false
	case !want.verifyStatus:
		return true
	}
	key := "status " + want.rollout + " " + want.asked.UID + " " + t.String()
	accepted, missing, err := r.awaitAcceptance(ctx, t, found, asked)
	if err != nil {
		r.log.WarnContext(ctx, "weights cannot be verified now", "rollout", want.rollout, "error", explain(want, t, err).Error())
		return false
	}
	if accepted {
		r.waits.End(key)
		return true
	}
	if waited, _ := r.waits.Elapsed(key); waited < statusLimit {
		return false
	}
	r.board.Warn(ctx, rollout, "RouteNotAccepted", fmt.Sprintf("%s: %s, for %v: its weights count as verified by its spec alone; look at its status and its Gateway, or, "+
		"where that reports no status, write %s: false in %s", t, missing, statusLimit, verifyKey, configField))
	return true
}

// held returns a route that is as want asks for it, or why it isn't. A "no" costs 10 s, and a "yes" at the full weight the old Pods: neither rests on a cache.
func (r *Router) held(ctx context.Context, want intent, t target) (*object, route.Intent, error) {
	schema, err := r.client.catalog.of(ctx, t.kind)
	if err != nil {
		return nil, route.Intent{}, err
	}
	asked := want.of(t, schema)
	found, cached, err := r.client.recent(ctx, t.kind, t.name)
	if err != nil {
		return nil, asked, err
	}
	err = route.Holds(found.content, asked)
	if cached && (err != nil || want.full()) {
		if found, err = r.client.get(ctx, t.kind, t.name); err != nil {
			return nil, asked, err
		}
		err = route.Holds(found.content, asked)
	}
	return found, asked, err
}

// awaitAcceptance waits up to statusWait for the Gateways of found to accept it; missing says what keeps them from it. It ends early when the route is no longer as
// it was asked for.
func (r *Router) awaitAcceptance(ctx context.Context, t target, found *object, asked route.Intent) (accepted bool, missing string, err error) {
	read := func(ctx context.Context) (*object, error) { return r.client.get(ctx, t.kind, t.name) }
	last, accepted, err := r.client.caches[t.kind].Await(ctx, t.name, found, statusWait, read, func(o *object) bool {
		accepted, why := route.Accepted(o.content)
		missing = why
		return accepted
	})
	if !accepted || err != nil {
		return false, missing, err
	}
	return route.Holds(last.content, asked) == nil, "it was changed in the meantime", nil
}
