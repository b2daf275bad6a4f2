package scaling

import (
	"context"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// toZero makes KEDA remove the last replica soon after the last request. The guide's object keeps two replicas and
// counts the requests of a minute.
const toZero = `[{"op":"replace","path":"/spec/minReplicaCount","value":0},{"op":"add","path":"/spec/cooldownPeriod","value":5},` +
	`{"op":"add","path":"/spec/triggers/0/metadata/window","value":"10s"}]`

// wake ends the demo: without requests the app scales to zero, and one request wakes it.
func (d *Demo) wake(ctx context.Context) (report.Check, error) {
	check := report.Check{Name: "one request woke the app at zero"}
	err := d.shell.ShowAll(ctx,
		// An aborted canary ends only when the Rollout's template is that of the stable version again.
		guide.Argo("set", "image", guide.App, guide.App+"="+guide.Image+":"+d.Stable),
		guide.Kubectl("patch", "scaledobject", guide.App, "--type=json", "-p", toZero),
	)
	if err != nil {
		return check, err
	}
	d.display.setStatus("waiting for KEDA to take the last replica away")
	err = await.Within(ctx, "the app at zero", d.ScaleTimeout, func() bool {
		r := d.rollout.Get()
		return r.Spec.Replicas == 0 && r.Status.Replicas == 0
	}, func() string { return d.rollout.Get().String() })
	if err != nil {
		return check, err
	}
	d.shell.Screen.Print(d.shell.Style.Heading(fmt.Sprintf("[%s] at zero", report.Seconds(time.Since(d.Started)))) +
		": no pod is left; one request comes")
	w := d.sendFirstRequest(ctx)
	check.OK, check.Detail = w.err == nil, w.String()
	if w.err != nil {
		check.Invariant = invariant.FailedRequests
		return check, fmt.Errorf("%s: %w: %w", check.Name, guide.ErrCheck, w.err)
	}
	d.shell.Screen.Print("  " + check.Detail)
	return check, nil
}

// wakeResult contains the times from a request to its effects.
type wakeResult struct {
	scaled, ready, answered time.Duration
	color                   string
	err                     error
}

// String implements fmt.Stringer.
func (w wakeResult) String() string {
	if w.err != nil {
		return fmt.Sprintf("no answer within %s: %v", report.Seconds(w.answered), w.err)
	}
	return fmt.Sprintf("KEDA scaled the Rollout after %s, its pod was ready after %s, and %s answered after %s",
		report.Seconds(w.scaled), report.Seconds(w.ready), w.color, report.Seconds(w.answered))
}

// sendFirstRequest sends one request and watches the Rollout during it.
func (d *Demo) sendFirstRequest(ctx context.Context) wakeResult {
	d.display.setStatus("waiting for the answer to one request")
	began := time.Now()
	seen := make(chan wakeResult, 1)
	go func() {
		var w wakeResult
		// If no replica is ever ready, the request fails too, with its own time limit.
		_ = await.Within(ctx, "a ready replica", d.WakeTimeout, func() bool {
			r, since := d.rollout.Get(), time.Since(began)
			if w.scaled == 0 && r.Spec.Replicas > 0 {
				w.scaled = since
			}
			w.ready = since
			return r.Status.ReadyReplicas > 0
		}, func() string { return d.rollout.Get().String() })
		seen <- w
	}()
	color, err := load.Probe(ctx, load.Config{
		Address: d.Address, Dial: d.Dial, Host: guide.Host, Path: "/color", Timeout: d.WakeTimeout, Colors: guide.Colors(),
	})
	answered := time.Since(began)
	w := <-seen
	w.color, w.err, w.answered = color, err, answered
	return w
}
