package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// statusTimeout is how long VerifyWeight waits for the first report of a parent on a route; after that the parent
// counts as one that never reports. A route that is older than that and has no status at all is not waited for.
const statusTimeout = 60 * time.Second

// target is a route, bound to a request.
type target struct {
	*routing
	reference

	rollout    string       // namespace/name, for messages
	intent     route.Intent // without the fields that depend on the route
	isLeftover bool         // the Rollout no longer references it
}

var _ engine.Target[*object] = (*target)(nil)

// String returns the route's kind and name.
func (t *target) String() string { return t.reference.String() }

// Get returns the route from its kind's cache if that is up to date, otherwise from the API server.
func (t *target) Get(ctx context.Context) (live *object, cached bool, err error) {
	return t.client.get(ctx, t.kind, t.name)
}

// GetLive returns the route from the API server.
func (t *target) GetLive(ctx context.Context) (*object, error) {
	return t.client.getLive(ctx, t.kind, t.name)
}

// Await waits until done returns true for a state of the route.
func (t *target) Await(ctx context.Context, live *object, done func(*object) bool) (*object, error) {
	last, _, err := t.client.caches[t.kind].Await(ctx, t.name, live, engine.StatusWait, t.GetLive, done)
	return last, err
}

// completeIntent returns the intent with the fields that depend on the route.
func (t *target) completeIntent(ctx context.Context) (route.Intent, error) {
	schema, err := t.client.catalog.lookup(ctx, t.kind)
	if err == nil && !schema.hasSessions && t.intent.SplitsSessions() {
		schema, err = t.client.catalog.lookupWithin(ctx, t.kind, missingFieldTTL)
	}
	if err != nil {
		return route.Intent{}, err
	}
	intent := t.intent
	intent.Kind, intent.RuleName = t.kind, t.ruleName
	intent.HasRuleNames, intent.HasMirrorPercent = schema.hasRuleNames, schema.hasMirrorPercent
	intent.HasSessions = schema.hasSessions
	switch {
	case !t.kind.HeaderRoutes() && !t.kind.MirrorRoutes():
		intent.ManagedRoutes = nil
	case !t.headerRoutes:
		intent.ManagedRoutes = &[]route.ManagedRoute{}
	}
	return intent, nil
}

// Plan returns the change of the route to the request. Conflicting owners in its record are looked up: those that are
// gone do not count.
func (t *target) Plan(ctx context.Context, live *object) (engine.Change, error) {
	intent, err := t.completeIntent(ctx)
	if err != nil {
		return engine.Change{}, err
	}
	if live.isKnownMatch(intent) {
		return engine.Change{}, nil
	}
	content, report, err := t.apply(ctx, live, &intent)
	if t.isLeftover && errors.Is(err, route.ErrNoRule) {
		return engine.Change{}, nil // no rule splits traffic between these Services any more
	}
	if err != nil {
		return engine.Change{}, err
	}
	if !report.Changed && len(report.Warnings) == 0 && !live.ownsFieldsAtRest() {
		live.rememberMatch(intent)
	}
	change := engine.Change{Warnings: report.Warnings, Attributes: []any{"active", report.Active}}
	switch {
	case report.Changed:
		staged := route.Staged(live.content, intent, content)
		change.Write = func(ctx context.Context) error { return t.write(ctx, staged, content) }
	case live.ownsFieldsAtRest():
		change.Attributes = append(change.Attributes, "releasesFields", true)
		change.Write = func(ctx context.Context) error {
			t.release(ctx, nil)
			return nil
		}
	}
	return change, nil
}

// apply is route.Apply that ignores owners that are gone. It adds them to intent.
func (t *target) apply(ctx context.Context, live *object, intent *route.Intent) (map[string]any, route.Report, error) {
	for {
		content, report, err := route.Apply(live.content, *intent)
		var owned *route.OwnedError
		if !errors.As(err, &owned) {
			return content, report, err
		}
		isGone, lookupErr := t.isOwnerGone(ctx, live, owned)
		switch {
		case lookupErr != nil:
			return nil, route.Report{}, lookupErr
		case !isGone:
			return nil, route.Report{}, err
		}
		t.log.InfoContext(ctx, "ignoring a Rollout that no longer references the route",
			"rollout", t.rollout, "route", t.String(), "former", owned.Rollout)
		intent.GoneOwners = append(intent.GoneOwners, owned.Rollout)
	}
}

// isOwnerGone reports whether an owner in live's record no longer uses the route: see rollouts.IsOwnerGone.
func (t *target) isOwnerGone(ctx context.Context, live *object, owner *route.OwnedError) (bool, error) {
	namespace, name, isPath := strings.Cut(owner.Rollout, "/")
	if !isPath || namespace == "" || name == "" || strings.Contains(name, "/") {
		return true, nil // not written by this router
	}
	mark := rollouts.Owner{Rollout: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(owner.UID)}
	return rollouts.IsOwnerGone(ctx, t.client.api, mark, func(rollout *v1alpha1.Rollout) bool {
		return isReferencedBy(rollout, t.reference, live)
	})
}

// isReferencedBy reports whether the configuration of rollout references a route, by name or by selector.
func isReferencedBy(rollout *v1alpha1.Rollout, ref reference, live *object) bool {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return false
	}
	isNamed := slices.ContainsFunc(chosen.routes, func(r reference) bool {
		return r.kind == ref.kind &&
			r.name == ref.name
	})
	return isNamed || slices.ContainsFunc(chosen.selections, func(s selection) bool {
		return s.kind == ref.kind && s.namespace == ref.name.Namespace && s.labels.Matches(live.labels)
	})
}

// CheckWritten returns nil if the route's spec is exactly as requested.
func (t *target) CheckWritten(ctx context.Context, live *object) error {
	intent, err := t.completeIntent(ctx)
	if err != nil || live.isKnownMatch(intent) {
		return err
	}
	return route.CheckSpec(live.content, intent)
}

// DataPlaneState returns Applied if the route's Gateways have accepted its current generation, by the conditions in its
// status, and none reports that it does not implement the sessions of the Rollout.
func (t *target) DataPlaneState(_ context.Context, live *object) (engine.DataPlaneState, string) {
	accepted, reason := route.Accepted(live.content)
	problem := t.sessionProblem(live)
	switch {
	case problem != "":
		return engine.NotApplied, problem
	case accepted:
		return engine.Applied, ""
	case route.HasStatus(live.content):
		return engine.NotApplied, fmt.Sprintf("%s: correct the route, check that the controller of its Gateway is running, "+
			"or write %s: false in %s to continue without a check", reason, verifyKey, configField)
	default:
		return engine.Unknown, reason
	}
}

// sessionProblem returns why the route's Gateways do not implement the Rollout's sessions, and the fix; empty if none
// reports that.
func (t *target) sessionProblem(live *object) string {
	problem := ""
	if t.intent.SplitsSessions() {
		problem = route.SessionProblem(live.content)
	}
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("%s: the Gateway may not implement the sessions: correct the cause in this condition, or remove %s "+
		"from %s", problem, stickinessKey, configField)
}

// AcceptUnverified accepts the spec alone if no Gateway has ever reported on the route, or if one of its parents never
// has and all others accept it, after statusTimeout. A parent that has reported anything else, for any generation, is
// waited for without a limit: its data plane may have any earlier weights. At rest no step depends on the weights, and
// the spec is enough, unless a Gateway reports that it does not implement the Rollout's sessions.
func (t *target) AcceptUnverified(live *object, wait engine.Wait) (reasons.Warning, bool) {
	if t.sessionProblem(live) != "" {
		return reasons.Warning{}, false
	}
	unreported := route.Unreported(live.content)
	isOldWithoutStatus := !route.HasStatus(live.content) && !live.created.IsZero() &&
		time.Since(live.created) > statusTimeout
	if unreported == "" || wait.Elapsed < statusTimeout && !isOldWithoutStatus {
		return reasons.Warning{}, wait.IsAtRest
	}
	return reasons.Warning{
		Reason: reasons.RouteNotReported,
		Message: fmt.Sprintf("%s: its weights are unverified: %s, so its spec alone counts, and requests may follow other "+
			"weights: check spec.parentRefs and the Gateway's controller, or, if the Gateway reports no status, write "+
			"%s: false in %s", t, unreported, verifyKey, configField),
	}, true
}

// HasCanaryTraffic reports whether the route gives weight to the canary or an experiment of the Rollout.
func (t *target) HasCanaryTraffic(live *object) bool {
	intent := t.intent
	intent.Kind, intent.RuleName = t.kind, t.ruleName
	return route.HasCanaryTraffic(live.content, intent)
}

// CanaryWeight returns the highest weight of the canary in a rule of the route.
func (t *target) CanaryWeight(live *object) uint32 {
	intent := t.intent
	intent.Kind, intent.RuleName = t.kind, t.ruleName
	return uint32(max(0, route.CanaryWeight(live.content, intent)))
}

// IsMissing reports whether err means that the route does not exist.
func (*target) IsMissing(err error) bool {
	return apierrors.IsNotFound(err) || errors.Is(err, errNotServed)
}

// Explain adds the route and a fix to the error of a failed read or write. It returns nil for nil.
func (t *target) Explain(err error) error {
	if err == nil {
		return nil
	}
	return explain(t.rollout, t.reference, err)
}

// explain is target.Explain for a reference, which may stand for a selector.
func explain(rollout string, ref reference, err error) error {
	object := fmt.Sprintf("%s of rollout %q", ref, rollout)
	if errors.Is(err, errNotServed) {
		return fmt.Errorf("%s: %w: install the CustomResourceDefinition %s.%s, or correct %s", object, err,
			ref.kind.Resource(), group, ref.field)
	}
	return kube.Explain(object, err, kube.Fixes{
		NotFound: "create it, or correct " + ref.field,
		Forbidden: fmt.Sprintf("allow the controller's ServiceAccount to get, list, watch and update %s of %s in namespace "+
			"%q: apply the ClusterRole and ClusterRoleBinding argo-rollouts-gateway-api", ref.kind.Resource(), group,
			ref.name.Namespace),
	})
}
