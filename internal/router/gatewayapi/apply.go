package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"golang.org/x/sync/errgroup"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// atOnce is how many routes of one call are read or written at a time.
const atOnce = 8

// sideBySide does the same for all targets, several at a time, and joins the errors. One stops none of the others.
func sideBySide(targets []target, do func(i int, t target) error) error {
	errs := make([]error, len(targets))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, t := range targets {
		group.Go(func() error {
			errs[i] = do(i, t)
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return joined(errs)
}

// change is what is to be done to one route.
type change struct {
	read    *object
	content map[string]any // as it should be
	retired map[string]any // as it should be before that for a while; nil for at once
	report  route.Report
}

// apply brings the routes to what want asks for. Nothing is written before every route is found fit. Errors name their route.
func (r *Router) apply(ctx context.Context, rollout *v1alpha1.Rollout, want intent) error {
	targets, err := r.targets(ctx, want)
	if err != nil {
		return err
	}
	changes := make([]change, len(targets))
	err = sideBySide(targets, func(i int, t target) (err error) {
		changes[i], err = r.prepare(ctx, want, t)
		return explain(want, t, err)
	})
	if err != nil {
		return err
	}
	return sideBySide(targets, func(i int, t target) error {
		if changes[i].report.Changed {
			if err := r.write(ctx, want, t, &changes[i]); err != nil {
				return explain(want, t, err)
			}
		}
		r.tell(ctx, rollout, want, t, changes[i])
		return nil
	})
}

// prepare is plan, again while the API server is in trouble. Where there is nothing to undo, nothing is to be done.
func (r *Router) prepare(ctx context.Context, want intent, t target) (planned change, err error) {
	err = resilience.Retry(ctx, func(ctx context.Context) (err error) {
		planned, err = r.plan(ctx, want, t)
		return err
	})
	if isMissing(err) && want.idle() {
		return change{}, nil
	}
	return planned, err
}

// plan works out what is to be done to a route. That nothing is, the cache may say; what is wrong with a route is the API server's word.
func (r *Router) plan(ctx context.Context, want intent, t target) (change, error) {
	found, cached, err := r.client.recent(ctx, t.kind, t.name)
	if err != nil {
		return change{}, err
	}
	planned, err := r.applied(ctx, want, t, found)
	if err != nil && cached {
		return r.planLive(ctx, want, t)
	}
	return planned, err
}

// planLive is plan by the API server's word.
func (r *Router) planLive(ctx context.Context, want intent, t target) (change, error) {
	found, err := r.client.get(ctx, t.kind, t.name)
	if err != nil {
		return change{}, err
	}
	return r.applied(ctx, want, t, found)
}

// applied is found as want asks for it. Other Rollouts that stand in the way are looked up: those that have left the route don't count.
func (r *Router) applied(ctx context.Context, want intent, t target, found *object) (change, error) {
	schema, err := r.client.catalog.of(ctx, t.kind)
	if err != nil {
		return change{}, err
	}
	asked := want.of(t, schema)
	for {
		content, report, err := route.Apply(found.content, asked)
		var owned *route.OwnedError
		if !errors.As(err, &owned) {
			return change{read: found, content: content, retired: route.Retired(found.content, asked, content), report: report}, err
		}
		gone, lookErr := r.left(ctx, t, found, owned)
		if lookErr != nil {
			return change{}, lookErr
		}
		if !gone {
			return change{}, err
		}
		r.log.InfoContext(ctx, "a Rollout that has left the route counts no more", "rollout", want.rollout, "route", t.String(), "former", owned.Rollout)
		asked.Gone = append(asked.Gone, owned.Rollout)
	}
}

// write writes a route. When somebody else has written it since it was read, it is planned anew.
func (r *Router) write(ctx context.Context, want intent, t target, planned *change) error {
	first := true
	return resilience.Retry(ctx, func(ctx context.Context) (err error) {
		if !first {
			if *planned, err = r.planLive(ctx, want, t); err != nil || !planned.report.Changed {
				return err
			}
		}
		first = false
		if planned.retired != nil {
			if err := r.retire(ctx, want, t, planned); err != nil || !planned.report.Changed {
				return err
			}
		}
		return r.client.put(ctx, t.kind, planned.read, planned.content)
	})
}

const (
	// retireWait is how long managed rules that are retired wait for the word of the Gateways.
	retireWait = time.Second
	// retireGrace is how long the proxies may then need to follow it: Envoy Gateway 1.9.1 was seen to
	// need 44 ms on a machine with little to spare.
	retireGrace = 500 * time.Millisecond
)

// retire lets managed rules that are about to go match no request any more, where a Gateway would
// otherwise lose requests under way to them, and waits until the proxies follow that. Without it the
// last requests of a header route were answered with 503 by Envoy Gateway now and then.
func (r *Router) retire(ctx context.Context, want intent, t target, planned *change) (err error) {
	if err := r.client.put(ctx, t.kind, planned.read, planned.retired); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "managed rules retired", "rollout", want.rollout, "route", t.String())
	if err := r.awaitProxies(ctx, t); err != nil {
		return err
	}
	*planned, err = r.planLive(ctx, want, t)
	return err
}

// awaitProxies waits until the Gateways have accepted a route, for a second at most, and then until
// their proxies follow it.
func (r *Router) awaitProxies(ctx context.Context, t target) error {
	read := func(ctx context.Context) (*object, error) { return r.client.get(ctx, t.kind, t.name) }
	written, err := read(ctx)
	if err != nil {
		return err
	}
	_, _, err = r.client.caches[t.kind].Await(ctx, t.name, written, retireWait, read, func(o *object) bool {
		accepted, _ := route.Accepted(o.content)
		return accepted
	})
	if err != nil {
		return err
	}
	grace := time.NewTimer(retireGrace)
	defer grace.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-grace.C:
		return nil
	}
}

// tell logs what was written and passes warnings on to the user.
func (r *Router) tell(ctx context.Context, rollout *v1alpha1.Rollout, want intent, t target, done change) {
	for _, warning := range done.report.Warnings {
		r.board.Warn(ctx, rollout, "RouteWarning", fmt.Sprintf("%s: %s", t, warning))
	}
	if !done.report.Changed {
		return
	}
	attrs := []any{"rollout", want.rollout, "route", t.String(), "active", done.report.Active}
	if weights := want.asked.Weights; weights != nil {
		attrs = append(attrs, "stableWeight", weights.Stable, "canaryWeight", weights.Canary)
	}
	if managed := want.asked.Managed; managed != nil {
		attrs = append(attrs, "managedRoutes", len(*managed))
	}
	r.log.InfoContext(ctx, "route written", attrs...)
}
