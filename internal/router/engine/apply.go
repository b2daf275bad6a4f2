package engine

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// atOnce is how many objects of one call are read or written at a time.
const atOnce = 8

// sideBySide does the same for all targets, several at a time, and returns the error of each. One stops none of the others. One target alone, which is what most
// Rollouts have, needs no goroutine with a stack of its own.
func sideBySide[O kube.State](targets []Target[O], do func(i int, t Target[O]) error) []error {
	errs := make([]error, len(targets))
	if len(targets) == 1 {
		errs[0] = do(0, targets[0])
		return errs
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, t := range targets {
		group.Go(func() error {
			errs[i] = do(i, t)
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return errs
}

// apply brings the Rollout's objects to what is asked for. Nothing is written before every object is found fit, unless everything is taken back: then one that is
// unfit does not keep requests on the canary by the others. Errors name their object.
func (r *Reconciler[O]) apply(ctx context.Context, ask Ask, configured Configured[O]) error {
	targets, err := configured.Targets(ctx, ask)
	if err != nil && !ask.Idle() {
		return err
	}
	return Join(err, r.applyTo(ctx, ask, targets), r.giveUp(ctx, ask, configured, targets))
}

// applyTo is apply for these targets.
func (r *Reconciler[O]) applyTo(ctx context.Context, ask Ask, targets []Target[O]) error {
	changes := make([]Change, len(targets))
	unfit := sideBySide(targets, func(i int, t Target[O]) (err error) {
		changes[i], err = r.prepare(ctx, ask, t)
		return t.Explain(err)
	})
	if err := Join(unfit...); err != nil && !ask.Idle() {
		return err
	}
	failed := sideBySide(targets, func(i int, t Target[O]) error {
		if unfit[i] != nil {
			return unfit[i]
		}
		done, err := r.write(ctx, t, changes[i])
		if err != nil {
			return t.Explain(err)
		}
		r.tell(ctx, ask, t, done)
		return nil
	})
	return Join(failed...)
}

// giveUp takes back what the Rollout shares by objects that it doesn't name any more: its configuration was changed in the middle of a canary.
func (r *Reconciler[O]) giveUp(ctx context.Context, ask Ask, configured Configured[O], targets []Target[O]) error {
	if !ask.Weigh {
		return nil
	}
	undone := ask.undone()
	left := configured.Leftovers(undone, targets)
	if len(left) == 0 {
		return nil
	}
	for _, t := range left {
		r.log.InfoContext(ctx, "an object that the Rollout doesn't name any more is given up", "rollout", ask.Name(), "object", t.String())
	}
	return r.applyTo(ctx, undone, left)
}

// prepare plans, again while the API server is in trouble. That nothing is to be done the cache may say, unless the weights have just changed; what is wrong with an
// object is the API server's word. Where there is nothing to undo, nothing is to be done.
func (r *Reconciler[O]) prepare(ctx context.Context, ask Ask, t Target[O]) (planned Change, err error) {
	err = kube.Retry(ctx, func(ctx context.Context) error {
		found, cached, err := t.Recent(ctx)
		if err != nil {
			return err
		}
		planned, err = t.Plan(ctx, found)
		if cached && (err != nil || planned.Write == nil && ask.Weigh && ask.changes()) {
			planned, err = planLive(ctx, t)
		}
		return err
	})
	if t.Missing(err) && ask.Idle() {
		return Change{}, nil
	}
	return planned, err
}

// planLive plans by the API server's word.
func planLive[O kube.State](ctx context.Context, t Target[O]) (Change, error) {
	found, err := t.Read(ctx)
	if err != nil {
		return Change{}, err
	}
	return t.Plan(ctx, found)
}

// write carries out a change and returns what was done. When somebody else has written the object since it was read, it is planned anew.
func (r *Reconciler[O]) write(ctx context.Context, t Target[O], planned Change) (Change, error) {
	first := true
	err := kube.Retry(ctx, func(ctx context.Context) (err error) {
		if !first {
			if planned, err = planLive(ctx, t); err != nil {
				return err
			}
		}
		first = false
		if planned.Write == nil {
			return nil
		}
		return planned.Write(ctx)
	})
	return planned, err
}

// tell logs what was written, with the time since the call came, and passes warnings on to the user.
func (r *Reconciler[O]) tell(ctx context.Context, ask Ask, t Target[O], done Change) {
	for _, warning := range done.Warnings {
		r.board.Warn(ctx, ask.Rollout, "RouteWarning", fmt.Sprintf("%s: %s", t, warning))
	}
	if done.Write == nil {
		return
	}
	attributes := append([]any{"rollout", ask.Name(), "object", t.String()}, done.Attributes...)
	if ask.Weigh {
		attributes = append(attributes, "stableWeight", ask.Shares.Stable.Weight, "canaryWeight", ask.Shares.Canary.Weight)
	}
	attributes = append(attributes, "managedRoutes", len(ask.Managed), "took", time.Since(ask.begun))
	r.log.InfoContext(ctx, "shares written", attributes...)
}
