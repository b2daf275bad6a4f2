package scaling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

const (
	// target is the guide's targetValue in requests per second for each replica. least and most are its bounds of the
	// number of replicas.
	target, least, most = 5, 2, 10
	// weight is the canary's weight in percent while it pauses.
	weight = 20
	// inFlight is the maximum number of concurrent requests. It is larger than the number of requests in one timeout.
	// Otherwise this client would fail first during a stall.
	inFlight = 4000
)

// phase is a request rate.
type phase struct {
	rate float64
	// in describes the state of the Rollout.
	in string
	// commands are the user's commands once the rate is active.
	commands [][]string
	// paused is true if the canary pauses at its weight.
	paused bool
	// afterOthers is true if requests at another rate may be in the window over which the rate is measured.
	afterOthers bool
}

// String implements fmt.Stringer.
func (p phase) String() string { return fmt.Sprintf("%g requests/s%s", p.rate, p.in) }

// plan returns the guide's rates, and a canary during which the rate grows.
func (d *Demo) plan() []phase {
	return []phase{
		// The guide's object has the default stabilization window of five minutes for scaling in.
		{
			rate: 8, afterOthers: true,
			commands: [][]string{guide.Kubectl("patch", "scaledobject", guide.App, "--type=merge", "-p",
				`{"spec":{"advanced":{"horizontalPodAutoscalerConfig":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}}}`)},
		},
		{rate: 25},
		{
			rate: 25, in: ", canary at 20 %", paused: true,
			commands: [][]string{guide.Argo("set", "image", guide.App, guide.App+"="+guide.Image+":"+d.Canary)},
		},
		{rate: 45, in: ", canary at 20 %", paused: true},
		{rate: 8, in: ", aborted", commands: [][]string{guide.Argo("abort", guide.App)}},
	}
}

// awaitWindow waits until the rate is that of the requests since now.
func (d *Demo) awaitWindow(ctx context.Context) error {
	d.display.setStatus(fmt.Sprintf("waiting for %s, over which the rate is measured", d.Window))
	timer := time.NewTimer(d.Window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// expectedReplicas returns the number of replicas for a rate.
func expectedReplicas(rate float64) int {
	return int(min(max(math.Ceil(rate/target), least), most))
}

// isExpected reports whether a number of replicas fits a rate. The tolerance is one replica, because KEDA uses a
// measured rate.
func isExpected(replicas int, rate float64) bool {
	d := replicas - expectedReplicas(rate)
	return -1 <= d && d <= 1
}

// canaryPods returns the number of canary Pods for a number of stable Pods at the canary's weight.
func canaryPods(replicas int) int {
	return int(math.Ceil(float64(replicas) * weight / 100))
}

// isReached reports whether both sides of a Rollout have the replicas of the phase.
func (p phase) isReached(r kube.Rollout) bool {
	stablePods, canaries := r.Sides()
	if !isExpected(r.Spec.Replicas, p.rate) || stablePods != r.Spec.Replicas {
		return false
	}
	if p.paused {
		return r.Paused() && canaries == canaryPods(r.Spec.Replicas)
	}
	return canaries == 0
}

// awaitReplicas waits until the Rollout has the replicas of the phase, and checks that the number stays correct.
func (d *Demo) awaitReplicas(ctx context.Context, p phase, began time.Time) (report.Replicas, error) {
	row := report.Replicas{Step: p.String(), Rate: p.rate, Expected: expectedReplicas(p.rate), State: report.Failed}
	now := func() kube.Rollout {
		r := d.rollout.Get()
		row.Desired = r.Spec.Replicas
		row.Stable, row.Canary = r.Sides()
		d.display.change(row.Desired, row.Stable, row.Canary)
		return r
	}
	d.display.setStatus(fmt.Sprintf("waiting for the %d replicas that are expected at %s", row.Expected, p))
	err := await.Within(ctx, "the replicas for "+p.String(), d.ScaleTimeout,
		func() bool { return p.isReached(now()) }, func() string {
			return fmt.Sprintf("%s; %d stable and %d canary pods", d.rollout.Get(), row.Stable, row.Canary)
		})
	row.After = time.Since(began)
	if err != nil {
		return row, err
	}
	d.display.setStatus(fmt.Sprintf("checking that their number stays the same for %s", d.StablePeriod))
	err = await.Within(ctx, "a wrong number of replicas", d.StablePeriod,
		func() bool { return !isExpected(now().Spec.Replicas, p.rate) }, func() string { return "none" })
	switch {
	case errors.Is(err, await.ErrNotReached): // as it should be
		row.State = report.Passed
		return row, nil
	case err != nil:
		return row, err
	default:
		return row, fmt.Errorf("%w: %d replicas, after the number was correct", guide.ErrCheck, row.Desired)
	}
}

// evaluate returns the checks of all rates.
func (d *Demo) evaluate(rows []report.Replicas, totals load.Totals) ([]report.Check, error) {
	none := report.Check{
		Name: "no request of the app that scales failed", OK: totals.Failed == 0 && totals.Sent > 0,
		Detail: fmt.Sprintf("%s of %s", report.Count(totals.Failed), report.Count(totals.Sent)),
	}
	if totals.Failed > 0 {
		none.Invariant = invariant.FailedRequests
	}
	for _, reason := range slices.Sorted(maps.Keys(totals.Reasons)) {
		none.Detail += fmt.Sprintf("; %s × %s", report.Count(totals.Reasons[reason]), reason)
	}
	hits := 0
	for _, r := range rows {
		if r.State == report.Passed {
			hits++
		}
	}
	followed := report.Check{
		Name: "replicas followed every rate", OK: hits == len(d.plan()),
		Detail: fmt.Sprintf("%d of %d", hits, len(d.plan())),
	}
	var failures []error
	for _, c := range []report.Check{none, followed} {
		if !c.OK {
			failures = append(failures, fmt.Errorf("%s: %w: %s", c.Name, guide.ErrCheck, c.Detail))
		}
	}
	return []report.Check{none, followed}, errors.Join(failures...)
}
