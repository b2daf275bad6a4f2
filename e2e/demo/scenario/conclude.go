package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// conclude makes the checks after the end of the load.
func (d *demo) conclude(ctx context.Context, totals load.Totals, pinned []load.Pinned) error {
	after, err := d.finalCounters(ctx, totals)
	checks := append(clientChecks(totals, pinned), counterChecks(totals, d.before, after, err)...)
	d.outcome.Checks = append(d.outcome.Checks, checks...)
	var failures []error
	for _, c := range checks {
		if !c.OK {
			failures = append(failures, fmt.Errorf("%s: %w: %s", c.Name, guide.ErrCheck, c.Detail))
		}
	}
	return errors.Join(failures...)
}

// finalCounters reads Envoy's counters until they agree with the client's counts or a time limit ends. counterChecks
// evaluates the result.
func (d *demo) finalCounters(ctx context.Context, totals load.Totals) (after envoyadmin.Counters, err error) {
	_ = await.Within(ctx, "Envoy's counters to agree", d.Counters, func() bool { // see above
		after, err = d.envoy.Counters(ctx)
		requests, success := increase(d.before, after)
		return err == nil && requests == totals.Sent && success == totals.OK
	}, func() string { return "they do not" })
	return after, err
}

// increase returns the increase of the counters of requests and successes. It is negative if another Envoy responds
// than before.
func increase(before, after envoyadmin.Counters) (requests, success int) {
	return after.Requests - before.Requests, after.Success - before.Success
}

// noneFailed checks that all requests succeeded.
func noneFailed(totals load.Totals) report.Check {
	c := report.Check{
		Name: "no request failed", OK: totals.Failed == 0 && totals.Sent > 0,
		Detail: fmt.Sprintf("%s of %s", report.Count(totals.Failed), report.Count(totals.Ended)),
	}
	if totals.Failed > 0 {
		c.Invariant = invariant.FailedRequests
	}
	for _, reason := range slices.Sorted(maps.Keys(totals.Reasons)) {
		c.Detail += fmt.Sprintf("; %s × %s", report.Count(totals.Reasons[reason]), reason)
	}
	return c
}

// clientChecks returns the checks of the client's results.
func clientChecks(totals load.Totals, pinned []load.Pinned) []report.Check {
	checks := []report.Check{noneFailed(totals)}
	for _, p := range pinned {
		c := report.Check{Name: p.Kind.String() + " connection survived", OK: p.Lost == nil && p.Answered > 0}
		c.Detail = report.Count(p.Answered) + " answers on one connection"
		if p.Lost != nil {
			c.Detail = fmt.Sprintf("lost after %s answers: %v", report.Count(p.Answered), p.Lost)
		}
		checks = append(checks, c)
	}
	return checks
}

// counterChecks compares the client's counts with Envoy's.
func counterChecks(totals load.Totals, before, after envoyadmin.Counters, err error) []report.Check {
	if err != nil {
		return []report.Check{{Name: "Envoy's counters agree", Detail: err.Error()}}
	}
	requests, success := increase(before, after)
	count := report.Check{
		Name: "Envoy counted the same", OK: requests == totals.Sent && success == totals.OK,
		Detail: fmt.Sprintf("downstream_rq_total +%s, 2xx +%s; sent %s, answered 200 %s",
			report.Count(requests), report.Count(success), report.Count(totals.Sent), report.Count(totals.OK)),
	}
	if !count.OK {
		count.Detail += " (other clients count too: is a page open in a browser?)"
	}
	listener := report.Check{
		Name: "no listener update during the canaries", OK: after.ListenerUpdates == before.ListenerUpdates,
		Detail: fmt.Sprintf("lds.update_success %d → %d", before.ListenerUpdates, after.ListenerUpdates),
	}
	return []report.Check{count, listener}
}
