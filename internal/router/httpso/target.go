package httpso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

const (
	// noProxyTimeout is how long a Rollout at the full canary weight waits for a Ready proxy. Without one no requests are
	// served at all, and the controller neither scales nor updates status at that weight until it is verified.
	noProxyTimeout = 60 * time.Second
	// staleReportTimeout is how long a report from before the last write of the annotation is ignored although its text is
	// the same. A running interceptor reports again within a fraction of that, unless the text changed back and forth
	// while no interceptor was running.
	staleReportTimeout = 5 * time.Second
)

// errDiffers means that an object does not have the requested annotations.
var errDiffers = errors.New("the annotation " + httpv1alpha1.AnnotationWeightedBackends + ", " +
	httpv1alpha1.AnnotationManagedRoutes + " or " + httpv1alpha1.AnnotationStickiness +
	" differs from what the router wrote")

// target is an object, bound to a request.
type target struct {
	*routing

	desired       desiredState
	listForbidden bool // the objects of other triggers are unknown
}

var (
	_ engine.Target[*object]    = (*target)(nil)
	_ engine.StablePodsReporter = (*target)(nil)
)

// String returns the object's kind and name.
func (t *target) String() string { return fmt.Sprintf("%s %q", t.desired.kind.name, t.desired.object) }

// Get returns the object from the cache if that is up to date, otherwise from the API server.
func (t *target) Get(ctx context.Context) (live *object, cached bool, err error) {
	return t.client.get(ctx, t.desired.object)
}

// GetLive returns the object from the API server.
func (t *target) GetLive(ctx context.Context) (*object, error) {
	return t.client.getLive(ctx, t.desired.object)
}

// Await waits until done returns true for a state of the object.
func (t *target) Await(ctx context.Context, live *object, done func(*object) bool) (*object, error) {
	last, _, err := t.client.cache.Await(ctx, t.desired.object, live, engine.StatusWait, t.GetLive, done)
	return last, err
}

// Plan writes the weights, stable first, the managed routes and the stickiness to their annotations, or removes all if
// the stable Service gets all requests. It overwrites other writers, except another Rollout that exists and references
// the object: that is an error. An invalid stickiness is an error only for weights that rise: lower and equal weights
// must not depend on it, because an analysis that aborts the Rollout follows after them.
func (t *target) Plan(ctx context.Context, live *object) (engine.Change, error) {
	if err := t.checkOwner(ctx, live); err != nil {
		return engine.Change{}, err
	}
	if t.raises(live) {
		if live.isUnrouted {
			return engine.Change{}, fmt.Errorf("%w: HTTPScaledObject %s: annotation %s: %s: name the object of a trigger of "+
				"type kedify-http in httpScaledObjectName", errUnrouted, live.name, httpv1alpha1.AnnotationRouting,
				httpv1alpha1.RoutingNone)
		}
		if err := t.desired.stickinessProblem(); err != nil {
			return engine.Change{}, err
		}
	}
	ownerMark, warnings := t.desired.ownerMark(live), t.warnings(live)
	if t.desired.matches(live) && live.owner == ownerMark {
		return engine.Change{Warnings: warnings}, nil
	}
	texts := t.desired.annotations(live)
	annotations := map[string]string{
		httpv1alpha1.AnnotationWeightedBackends:      texts.weightedBackends,
		httpv1alpha1.AnnotationWeightedBackendsOwner: ownerMark,
	}
	if texts.managedRoutes != "" || live.hasManagedRoutes {
		annotations[httpv1alpha1.AnnotationManagedRoutes] = texts.managedRoutes
	}
	if texts.stickiness != "" || live.hasStickiness {
		annotations[httpv1alpha1.AnnotationStickiness] = texts.stickiness
	}
	return engine.Change{
		Attributes: []any{"removed", texts.weightedBackends == ""}, Warnings: warnings,
		Write: func(ctx context.Context) error { return t.client.patchAnnotations(ctx, live, annotations) },
	}, nil
}

// raises reports whether the request gives the canary or an experiment more weight than it has in live.
func (t *target) raises(live *object) bool {
	desired := append([]router.Backend{t.desired.split.Canary}, t.desired.split.Others...)
	return slices.ContainsFunc(desired, func(b router.Backend) bool { return b.Weight > t.weightOf(live, b.Service) })
}

// warnings warns about an invalid stickiness, and that all requests of other triggers may go to the stable Service.
func (t *target) warnings(live *object) []reasons.Warning {
	var warnings []reasons.Warning
	if err := t.desired.stickinessProblem(); err != nil {
		warnings = append(warnings, reasons.Warning{Reason: reasons.StickinessNotApplied, Message: err.Error()})
	}
	if !t.listForbidden || live.scaledObject == "" {
		return warnings
	}
	return append(warnings, reasons.Warning{Reason: reasons.OtherTriggersNotListed, Message: fmt.Sprintf("cannot list the "+
		"HTTPScaledObjects of other triggers of ScaledObject %q; if there are any, they are not part of the canary: allow "+
		"the controller's ServiceAccount to list httpscaledobjects: apply the ClusterRole argo-rollouts-kedify-http",
		live.scaledObject)})
}

// CheckWritten returns nil if the object has the annotations exactly as Plan writes them, and the stickiness is valid.
func (t *target) CheckWritten(_ context.Context, live *object) error {
	if other, ok := t.desired.otherOwner(live); ok {
		return fmt.Errorf("%w: rollout %q", errOwned, other.rollout)
	}
	if !t.desired.matches(live) {
		return errDiffers
	}
	return t.desired.stickinessProblem()
}

// DataPlaneState returns Applied if, by the interceptor's report, there is a Ready proxy and all of them have ACKed the
// annotation. If no interceptor keeps the report up to date, it still is what the proxies have, so a report about this
// annotation counts, and any other annotation waits.
//
// The annotation alone is enough only if no report can come: the interceptors were uninstalled, or none was ever
// installed and none has reported on the object (other software reads the annotation then).
func (t *target) DataPlaneState(ctx context.Context, live *object) (engine.DataPlaneState, string) {
	liveness := t.monitor.check(ctx)
	if liveness == interceptorUninstalled || liveness == interceptorAbsent && live.report == nil {
		return engine.Applied, ""
	}
	state, reason := reportedState(live, liveness == interceptorAlive)
	switch {
	case state == engine.Applied:
		return engine.Applied, ""
	case liveness != interceptorAlive:
		return engine.Unknown, reason + "; " + t.monitor.describe()
	default:
		return state, reason + fmt.Sprintf("; check the kedify-proxy of namespace %q and the interceptor's log, or write "+
			"%s: false in %s", t.desired.object.Namespace, verifyKey, configField)
	}
}

// reportedState returns Applied if live's report refers to the annotation that live has, and there is a Ready proxy,
// and all of them have ACKed it. After a weight was changed back and forth, the text is the same as before; until a
// report refers to the later write, it counts as stale: for staleReportTimeout if reports are maintained, else always.
func reportedState(live *object, isMaintained bool) (engine.DataPlaneState, string) {
	report := live.report
	if report == nil {
		return engine.Unknown, "no interceptor has reported on it"
	}
	switch ready, acked := report.Proxies.Ready, report.Proxies.Acked; {
	case live.notServed != "":
		return engine.NotApplied, live.notServed
	case ready == 0:
		return engine.Unknown, "no proxy is Ready"
	case !isReportOf(live, isMaintained):
		return engine.NotApplied, fmt.Sprintf("the interceptor has not reported on this annotation yet; its last report is "+
			"for an earlier one, with %d of %d Ready proxies", acked, ready)
	case acked != ready:
		return engine.NotApplied, fmt.Sprintf("%d of %d Ready proxies have ACKed it", acked, ready)
	case !report.Effective:
		return engine.NotApplied, fmt.Sprintf("%d of %d Ready proxies have ACKed it, but the weight of a Service without "+
			"ready endpoints is redirected", acked, ready)
	}
	return engine.Applied, ""
}

// isReportOf reports whether live has a report about the annotation that it has. isMaintained is as in reportedState.
func isReportOf(live *object, isMaintained bool) bool {
	report := live.report
	if report == nil {
		return false
	}
	isStale := report.ResourceVersion != "" && kube.Older(report.ResourceVersion, live.annotatedVersion) &&
		(!isMaintained || time.Since(live.annotatedAt) < staleReportTimeout)
	return !isStale && report.AnnotationHash == split.Hash(live.weightedBackends, live.managedRoutes, live.stickiness)
}

// AcceptUnverified accepts the full canary weight if a running interceptor has reported on this annotation that no proxy
// is Ready, for noProxyTimeout. Any other report does not show that: the interceptor may be unable to write a new one.
func (t *target) AcceptUnverified(live *object, wait engine.Wait) (reasons.Warning, bool) {
	isCurrent := t.monitor.last() == interceptorAlive && isReportOf(live, true) && live.notServed == ""
	if !wait.IsFullCanary || !isCurrent || live.report.Proxies.Ready > 0 || wait.Elapsed < noProxyTimeout {
		return reasons.Warning{}, false
	}
	return reasons.Warning{Reason: reasons.DataPlaneNotVerified, Message: fmt.Sprintf("%s has had no "+
		"Ready proxy for %v: the full "+
		"canary weight counts as verified by its annotation alone; check the kedify-proxy of namespace %q",
		t, noProxyTimeout, t.desired.object.Namespace)}, true
}

// HasCanaryTraffic reports whether the annotation is this Rollout's and gives weight to a Service other than the stable
// one.
func (t *target) HasCanaryTraffic(live *object) bool {
	if _, ok := t.desired.otherOwner(live); ok {
		return false
	}
	backends, err := split.Parse(live.weightedBackends)
	return err == nil && slices.ContainsFunc(backends, func(b split.Backend) bool {
		return b.Service != t.desired.split.Stable.Service && b.Weight > 0
	})
}

// CanaryWeight returns the weight of the canary Service in the annotation, if that is this Rollout's.
func (t *target) CanaryWeight(live *object) uint32 {
	return t.weightOf(live, t.desired.split.Canary.Service)
}

// weightOf returns the weight of a Service in the annotation, if that is this Rollout's.
func (t *target) weightOf(live *object, service string) uint32 {
	if _, ok := t.desired.otherOwner(live); ok {
		return 0
	}
	backends, _ := split.Parse(live.weightedBackends) // an invalid annotation gives no weight
	for _, backend := range backends {
		if backend.Service == service {
			return backend.Weight
		}
	}
	return 0
}

// StableHasHash reports whether the stable Service has only Pods of hash, by the interceptor's report. A report with
// hashes is authoritative, because the proxies get their endpoints from interceptors: without a running one, they keep
// those of the last report. Otherwise, and after an uninstall, known is false.
func (t *target) StableHasHash(ctx context.Context, hash string) (matches, known bool, err error) {
	live, _, err := t.Get(ctx)
	if err != nil {
		return false, false, err
	}
	report := live.report
	if report == nil || len(report.StableHashes) == 0 || t.monitor.check(ctx) == interceptorUninstalled {
		return false, false, nil
	}
	return slices.Equal(report.StableHashes, []string{hash}), true, nil
}

// Changed returns a channel that is closed at the next change of the object.
func (t *target) Changed() <-chan struct{} { return t.client.cache.Changed(t.desired.object) }

// IsMissing reports whether err means that the object does not exist.
func (*target) IsMissing(err error) bool { return apierrors.IsNotFound(err) }

// Explain adds the object and a fix to the error of a failed read or write. It returns nil for nil.
func (t *target) Explain(err error) error {
	if err == nil {
		return nil
	}
	return kube.Explain(fmt.Sprintf("%s of rollout %q", t, t.desired.rollout), err, kube.Fixes{
		NotFound: fmt.Sprintf("create it (and install the CustomResourceDefinition %s if it is missing), or correct %s.%s",
			t.desired.kind.crd(), configField, t.desired.kind.key),
		Forbidden: "allow the controller's ServiceAccount to get and patch " + t.desired.kind.resource + ": apply the " +
			"ClusterRole and ClusterRoleBinding argo-rollouts-kedify-http",
	})
}
