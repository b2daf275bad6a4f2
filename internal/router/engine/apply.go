package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// maxParallel is the number of objects that one call reads or writes in parallel.
const maxParallel = 8

// forEachTarget calls do for all targets, several in parallel, and returns the error of each. An error does not stop
// the other calls. A single target, which most Rollouts have, is handled on the caller's goroutine.
func forEachTarget[O kube.State](targets []Target[O], do func(i int, t Target[O]) error) []error {
	errs := make([]error, len(targets))
	if len(targets) == 1 {
		errs[0] = do(0, targets[0])
		return errs
	}
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i, t := range targets {
		group.Go(func() error {
			errs[i] = do(i, t)
			return nil
		})
	}
	_ = group.Wait() // all errors are in errs
	return errs
}

// apply brings the Rollout's objects to the request. It writes nothing unless every object has a valid plan, except for
// an idle request: an invalid object must not keep traffic on the canary through the others. Each error names its
// object. Afterwards, the objects of an active Rollout are compared with what was written: see drift.
func (r *Reconciler[O]) apply(ctx context.Context, request Request, config Configuration[O]) error {
	r.drift.forget(request.Rollout)
	targets, err := config.Targets(ctx, request)
	if err != nil && !request.IsIdle() {
		return err
	}
	err = Join(err, r.applyTargets(ctx, request, targets), r.release(ctx, request, config, targets))
	if err == nil && request.SetsWeights && !request.IsIdle() {
		r.drift.expect(request, targets)
	}
	return err
}

// applyTargets is apply for these targets.
func (r *Reconciler[O]) applyTargets(ctx context.Context, request Request, targets []Target[O]) error {
	changes := make([]Change, len(targets))
	planErrs := forEachTarget(targets, func(i int, t Target[O]) (err error) {
		changes[i], err = r.plan(ctx, request, t)
		return t.Explain(err)
	})
	if err := Join(planErrs...); err != nil && !request.IsIdle() {
		return err
	}
	writeErrs := forEachTarget(targets, func(i int, t Target[O]) error {
		if planErrs[i] != nil {
			return planErrs[i]
		}
		change, err := r.write(ctx, t, changes[i])
		if err != nil {
			return t.Explain(err)
		}
		r.report(ctx, request, t, change)
		return nil
	})
	return Join(writeErrs...)
}

// release resets marked objects that the Rollout no longer references: its configuration was changed during a canary.
func (r *Reconciler[O]) release(
	ctx context.Context, request Request, config Configuration[O], targets []Target[O],
) error {
	if !request.SetsWeights {
		return nil
	}
	reset := request.reset()
	leftovers := slices.DeleteFunc(config.OwnedTargets(reset), func(t Target[O]) bool {
		return slices.ContainsFunc(targets, func(other Target[O]) bool { return other.String() == t.String() })
	})
	if len(leftovers) == 0 {
		return nil
	}
	for _, t := range leftovers {
		r.log.InfoContext(ctx, "resetting an object that the Rollout no longer references", "rollout", request.Name(),
			"object", t.String())
	}
	return r.applyTargets(ctx, reset, leftovers)
}

// plan plans the change of one object and retries transient errors. The cache is enough for an empty change, unless
// the weights have just changed; an error is confirmed with the API server. For an idle request, a missing object needs
// no change.
func (r *Reconciler[O]) plan(ctx context.Context, request Request, t Target[O]) (change Change, err error) {
	err = kube.Retry(ctx, func(ctx context.Context) error {
		object, cached, err := t.Get(ctx)
		if err != nil {
			return err
		}
		change, err = t.Plan(ctx, object)
		if cached && (err != nil || change.Write == nil && request.SetsWeights && request.changesSplit()) {
			change, err = planLive(ctx, t)
		}
		return err
	})
	if t.IsMissing(err) && request.IsIdle() {
		return Change{}, nil
	}
	return change, err
}

// planLive plans the change of the object in the API server.
func planLive[O kube.State](ctx context.Context, t Target[O]) (Change, error) {
	object, err := t.GetLive(ctx)
	if err != nil {
		return Change{}, err
	}
	return t.Plan(ctx, object)
}

// write carries out a change. After a conflict it plans again. It returns the change that was written.
func (r *Reconciler[O]) write(ctx context.Context, t Target[O], change Change) (Change, error) {
	first := true
	err := kube.Retry(ctx, func(ctx context.Context) (err error) {
		if !first {
			if change, err = planLive(ctx, t); err != nil {
				return err
			}
		}
		first = false
		if change.Write == nil {
			return nil
		}
		return change.Write(ctx)
	})
	return change, err
}

// report logs a written change, with the time since the call was received, and emits its warnings as Events.
func (r *Reconciler[O]) report(ctx context.Context, request Request, t Target[O], change Change) {
	for _, warning := range change.Warnings {
		r.events.Warn(ctx, request.Rollout, warning.Reason, fmt.Sprintf("%s: %s", t, warning.Message))
	}
	if change.Write == nil {
		return
	}
	attributes := append([]any{"rollout", request.Name(), "object", t.String()}, change.Attributes...)
	if request.SetsWeights {
		attributes = append(attributes,
			"stableWeight", request.Split.Stable.Weight, "canaryWeight", request.Split.Canary.Weight)
	}
	attributes = append(attributes, "managedRoutes", len(request.ManagedRoutes), "took", time.Since(request.received))
	r.log.InfoContext(ctx, "weights written", attributes...)
}
