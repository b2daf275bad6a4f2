package httpso

import (
	"context"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/router/watchcache"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

const (
	// reportWait is how long VerifyWeight waits inside the call for the proxies: asked again by the controller costs 10 s, and at the full weight an error.
	reportWait = 200 * time.Millisecond
	// emptyFleetLimit is how long a Rollout at the full weight waits for a Ready proxy. Without one no requests are served at all, while the controller
	// neither scales nor reports at that weight until it is verified.
	emptyFleetLimit = 60 * time.Second
	// bygoneLimit is how long a report that was made before the annotation was written last is not believed, although it is about the same text. An interceptor
	// that lives reports anew within a fraction of it, unless the text went and came back while none was there to see.
	bygoneLimit = 5 * time.Second
)

// VerifyWeight says whether requests are shared so: the object carries the annotation exactly as SetWeight writes it and, while an interceptor lives to
// report it, every Ready proxy has taken that and redirects no share. It waits reportWait for the latter. Whatever keeps it from finding out is logged and answered
// with false, because the controller asks about false again after 10 s but about an error only minutes later; and SetWeight, which it calls before each
// VerifyWeight, reports what does not pass.
//
// Where no interceptor lives, or the Rollout says verifyDataPlane: false, the annotation alone is judged. So it is at the full weight after emptyFleetLimit
// without a Ready proxy, with a Warning event.
func (r *Router) VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool, error) {
	want, err := intentOf(rollout, weight, others)
	if err != nil {
		return false, err
	}
	verified, err := r.verify(ctx, rollout, want)
	switch {
	case apierrors.IsNotFound(err) && want.shares.Idle():
		return true, nil
	case err != nil:
		r.log.WarnContext(ctx, "weights cannot be verified now", "rollout", want.rollout, "error", explain(want, err).Error())
		return false, nil
	}
	return verified, nil
}

// verify is VerifyWeight for an intent, with what kept it from finding out as an error.
func (r *Router) verify(ctx context.Context, rollout *v1alpha1.Rollout, want intent) (bool, error) {
	found, cached, err := r.client.recent(ctx, want.object)
	if err != nil {
		return false, err
	}
	if cached && (!want.holds(found) || want.full()) {
		// A "no" costs 10 s, and a "yes" at the full weight the old Pods: neither rests on a cache.
		if found, err = r.client.get(ctx, want.object); err != nil {
			return false, err
		}
	}
	if _, isForeign := want.foreign(found); isForeign || !want.holds(found) {
		return false, nil
	}
	if !want.verifyDataPlane {
		return true, nil
	}
	switch r.pulse.feel(ctx) {
	case absent:
		return true, nil
	case unknown:
		return false, nil
	default:
	}
	found, taken, err := r.awaitReport(ctx, want, found)
	if err != nil {
		return false, err
	}
	return taken || r.excused(ctx, rollout, want, found), nil
}

// awaitReport waits up to reportWait for found to report that the proxies took the annotation, and returns the last state it saw. It ends early when the
// annotation changes.
func (r *Router) awaitReport(ctx context.Context, want intent, found *object) (last *object, taken bool, err error) {
	read := func(ctx context.Context) (*object, error) { return r.client.get(ctx, want.object) }
	last, decided, err := r.client.cache.Await(ctx, want.object, found, reportWait, read, func(o *object) bool { return !want.holds(o) || takenByAll(o) })
	return last, decided && want.holds(last), err
}

// takenByAll says whether found's report is about the annotation that found carries, and every Ready proxy of at least one shares requests exactly so. A weight
// that was left and set again has the text of before; until the report is of the later write, it is about the earlier one.
func takenByAll(found *object) bool {
	report := found.report
	if report != nil && report.ResourceVersion != "" && watchcache.Older(report.ResourceVersion, found.since) && time.Since(found.seenAt) < bygoneLimit {
		return false
	}
	return report != nil && report.AnnotationHash == split.Hash(found.text) && report.Effective &&
		report.Proxies.Ready > 0 && report.Proxies.Acked == report.Proxies.Ready
}

// excused says whether a Rollout at the full weight need not wait for proxies any longer, because there has been no Ready one for emptyFleetLimit. It says so in
// an event, each time anew after the Rollout has been at another weight.
func (r *Router) excused(ctx context.Context, rollout *v1alpha1.Rollout, want intent, found *object) bool {
	key := "empty fleet " + string(rollout.UID) + " " + want.rollout
	if !want.full() || !want.holds(found) || (found.report != nil && found.report.Proxies.Ready > 0) {
		r.waits.End(key)
		return false
	}
	waited, _ := r.waits.Elapsed(key)
	if waited < emptyFleetLimit {
		return false
	}
	r.board.Warn(ctx, rollout, "DataPlaneNotVerified", fmt.Sprintf("HTTPScaledObject %q has had no Ready proxy for %v: the full canary weight counts as verified by its "+
		"annotation alone; check the kedify-proxy of namespace %q", want.object, emptyFleetLimit, want.object.Namespace))
	return true
}
