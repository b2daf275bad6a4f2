package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

const (
	// StatusWait is how long VerifyWeight waits inside the call for the data plane: asked again by the controller costs 10 s, and at the full weight an error.
	StatusWait = 200 * time.Millisecond
	// stillLimit is how long a Rollout stands still before its user is told why.
	stillLimit = 60 * time.Second
)

// VerifyWeight says whether requests are shared so: every object is exactly as SetWeight writes it, and the data plane has taken that. It waits 200 ms for the
// latter. Whatever keeps it from finding out is logged and answered with false, because the controller asks about false again after 10 s but about an
// error only minutes later; and SetWeight, which it calls before each VerifyWeight, reports what does not pass. After a minute of false there is a Warning event.
//
// Where the Rollout opts out, what is written is enough. A Rollout at rest is never waited for, because nothing depends on the answer: only what the data plane
// is known to have refused is false.
func (r *Reconciler[O]) VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool, error) {
	defer r.removals.End(rollout)
	ask, configured, err := r.asked(rollout, weight, others)
	if err != nil {
		return false, err
	}
	targets, err := configured.Targets(ctx, ask)
	if err != nil {
		r.unverified(ctx, slog.LevelWarn, ask, named(ask), err.Error())
		return false, nil
	}
	verified := make([]bool, len(targets))
	_ = sideBySide(targets, func(i int, t Target[O]) error {
		verified[i] = r.verify(ctx, ask, configured.Settings(), t)
		return nil
	})
	return !slices.Contains(verified, false), nil
}

// named names a Rollout where no object can be named.
func named(ask Ask) string { return fmt.Sprintf("rollout %q", ask.Name()) }

// verify is VerifyWeight for one object.
func (r *Reconciler[O]) verify(ctx context.Context, ask Ask, chosen Settings, t Target[O]) bool {
	found, err := r.held(ctx, ask, t)
	switch {
	case t.Missing(err) && ask.Idle():
		return true
	case err != nil:
		r.unverified(ctx, slog.LevelWarn, ask, t.String(), t.Explain(err).Error())
		return false
	case !chosen.VerifyDataPlane:
		return true
	}
	verdict, _ := t.Taken(ctx, found)
	if verdict == Taken {
		r.waits.End(waitKey(ask, t.String()))
		return true
	}
	if ask.AtRest() {
		_, excused := t.Excuse(found, Waited{Time: math.MaxInt64, Full: ask.Full()})
		return excused || verdict == Unknown
	}
	if r.excused(ctx, ask, t, found) {
		return true
	}
	verdict, why := r.awaitTaken(ctx, t, found)
	if verdict == Taken {
		r.waits.End(waitKey(ask, t.String()))
		return true
	}
	r.unverified(ctx, slog.LevelDebug, ask, t.String(), why)
	return false
}

// held returns an object that is as is asked for, or why it isn't. A "no" costs 10 s, a "yes" about new weights lets a step pass, and one about the full weight
// costs the old Pods: none of them rests on a cache.
func (r *Reconciler[O]) held(ctx context.Context, ask Ask, t Target[O]) (O, error) {
	found, cached, err := t.Recent(ctx)
	if err != nil {
		return found, err
	}
	err = t.Holds(ctx, found)
	if cached && (err != nil || ask.Full() || ask.changes()) {
		if found, err = t.Read(ctx); err == nil {
			err = t.Holds(ctx, found)
		}
	}
	return found, err
}

// awaitTaken waits up to StatusWait for the data plane. It ends early when the object is no longer as was asked for.
func (r *Reconciler[O]) awaitTaken(ctx context.Context, t Target[O], found O) (Verdict, string) {
	last, err := t.Await(ctx, found, func(o O) bool {
		verdict, _ := t.Taken(ctx, o)
		return verdict == Taken || t.Holds(ctx, o) != nil
	})
	if err == nil {
		err = t.Holds(ctx, last)
	}
	if err != nil {
		return Unknown, t.Explain(err).Error()
	}
	return t.Taken(ctx, last)
}

// excused says whether what the data plane has not taken counts as verified all the same. The user gets an event.
func (r *Reconciler[O]) excused(ctx context.Context, ask Ask, t Target[O], found O) bool {
	waited, _ := r.waits.Elapsed(waitKey(ask, t.String()), ask.about())
	excuse, is := t.Excuse(found, Waited{Time: waited, Full: ask.Full()})
	if is {
		r.board.Warn(ctx, ask.Rollout, excuse.Reason, excuse.Message)
	}
	return is
}

// unverified logs why a weight is not verified, and tells the user after a minute of that.
func (r *Reconciler[O]) unverified(ctx context.Context, level slog.Level, ask Ask, object, why string) {
	waited, _ := r.waits.Elapsed(waitKey(ask, object), ask.about())
	r.log.Log(ctx, level, "weights are not verified", "rollout", ask.Name(), "object", object, "why", why)
	if waited >= stillLimit && !ask.AtRest() {
		r.board.WarnOf(ctx, ask.Rollout, "WeightNotVerified", object, fmt.Sprintf("%s: its weights have not been verified for %v: %s", object,
			waited.Round(time.Second), why))
	}
}

// waitKey is what is waited for across calls.
func waitKey(ask Ask, object string) string {
	return "verify " + string(ask.Rollout.UID) + " " + ask.Name() + " " + object
}
