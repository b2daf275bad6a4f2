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
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// statusLimit is how long a route may stay without an acceptance of its current generation before its spec alone is judged. One that is older than that and has no
// status at all is not waited for: no Gateway writes any.
const statusLimit = 60 * time.Second

// target is a route, bound to what is asked of it.
type target struct {
	*routing
	reference

	rollout string       // namespace/name, for messages
	asked   route.Intent // without what differs from route to route
	isLeft  bool         // the Rollout doesn't name it any more
}

var _ engine.Target[*object] = (*target)(nil)

// String names the route in messages.
func (t *target) String() string { return t.reference.String() }

// Recent returns the route from its kind's cache where that can be believed, else from the API server.
func (t *target) Recent(ctx context.Context) (found *object, cached bool, err error) {
	return t.client.recent(ctx, t.kind, t.name)
}

// Read returns the route from the API server.
func (t *target) Read(ctx context.Context) (*object, error) {
	return t.client.get(ctx, t.kind, t.name)
}

// Await waits until decided says true of a state of the route.
func (t *target) Await(ctx context.Context, found *object, decided func(*object) bool) (*object, error) {
	last, _, err := t.client.caches[t.kind].Await(ctx, t.name, found, engine.StatusWait, t.Read, decided)
	return last, err
}

// intent is what is asked of this route.
func (t *target) intent(ctx context.Context) (route.Intent, error) {
	schema, err := t.client.catalog.of(ctx, t.kind)
	if err != nil {
		return route.Intent{}, err
	}
	asked := t.asked
	asked.Kind, asked.RuleName = t.kind, t.ruleName
	asked.NamedRules, asked.MirrorPercent = schema.namedRules, schema.mirrorPercent
	switch {
	case !t.kind.HeaderRoutes() && !t.kind.MirrorRoutes():
		asked.Managed = nil
	case !t.headerRoutes:
		asked.Managed = &[]route.Managed{}
	}
	return asked, nil
}

// Plan is the route as is asked for. Other Rollouts that stand in the way are looked up: those that have left the route don't count.
func (t *target) Plan(ctx context.Context, found *object) (engine.Change, error) {
	asked, err := t.intent(ctx)
	if err != nil {
		return engine.Change{}, err
	}
	if found.isAs(asked) {
		return engine.Change{}, nil
	}
	content, report, err := t.apply(ctx, found, &asked)
	if t.isLeft && errors.Is(err, route.ErrNoRule) {
		return engine.Change{}, nil // it shares nothing between these Services any more
	}
	if err != nil {
		return engine.Change{}, err
	}
	if !report.Changed && len(report.Warnings) == 0 {
		found.foundAs(asked)
	}
	change := engine.Change{Warnings: report.Warnings, Attributes: []any{"active", report.Active}}
	if report.Changed {
		between := route.Between(found.content, asked, content)
		change.Write = func(ctx context.Context) error { return t.write(ctx, found, between, content) }
	}
	return change, nil
}

// apply is route.Apply without Rollouts that have left the route.
func (t *target) apply(ctx context.Context, found *object, asked *route.Intent) (map[string]any, route.Report, error) {
	for {
		content, report, err := route.Apply(found.content, *asked)
		var owned *route.OwnedError
		if !errors.As(err, &owned) {
			return content, report, err
		}
		left, lookErr := t.left(ctx, found, owned)
		switch {
		case lookErr != nil:
			return nil, route.Report{}, lookErr
		case !left:
			return nil, route.Report{}, err
		}
		t.log.InfoContext(ctx, "a Rollout that has left the route counts no more", "rollout", t.rollout, "route", t.String(), "former", owned.Rollout)
		asked.Gone = append(asked.Gone, owned.Rollout)
	}
}

// left says whether a Rollout that the record on found names as an owner has left the route, as package rollouts has it.
func (t *target) left(ctx context.Context, found *object, owner *route.OwnedError) (bool, error) {
	namespace, name, isPath := strings.Cut(owner.Rollout, "/")
	if !isPath || namespace == "" || name == "" || strings.Contains(name, "/") {
		return true, nil // nobody of ours wrote that
	}
	mark := rollouts.Mark{Rollout: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(owner.UID)}
	return rollouts.Left(ctx, t.client.api, mark, func(rollout *v1alpha1.Rollout) bool { return names(rollout, t.reference, found) })
}

// names says whether rollout is routed by this router through the route.
func names(rollout *v1alpha1.Rollout, t reference, found *object) bool {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(chosen.routes, func(named reference) bool { return named.kind == t.kind && named.name == t.name }) ||
		slices.ContainsFunc(chosen.selections, func(which selection) bool {
			return which.kind == t.kind && which.namespace == t.name.Namespace && which.labels.Matches(found.labels)
		})
}

// Holds says whether the route's spec is exactly as is asked for.
func (t *target) Holds(ctx context.Context, found *object) error {
	asked, err := t.intent(ctx)
	if err != nil || found.isAs(asked) {
		return err
	}
	return route.Holds(found.content, asked)
}

// Taken says whether the route's Gateways have accepted its current generation, by their conditions in its status.
func (*target) Taken(_ context.Context, found *object) (engine.Verdict, string) {
	accepted, missing := route.Accepted(found.content)
	switch {
	case accepted:
		return engine.Taken, ""
	case route.Reported(found.content):
		return engine.NotTaken, missing
	default:
		return engine.Unknown, missing
	}
}

// Excuse lets a route's spec alone be judged after statusLimit, and at once where no Gateway has ever reported on it.
func (t *target) Excuse(found *object, waited engine.Waited) (engine.Excuse, bool) {
	remedy := fmt.Sprintf("look at its status and its Gateway, or, where that reports no status, write %s: false in %s", verifyKey, configField)
	if !route.Reported(found.content) && !found.made.IsZero() && time.Since(found.made) > statusLimit {
		return engine.Excuse{Reason: "RouteNotReported", Message: fmt.Sprintf("%s: no Gateway has ever reported on it: its weights count as verified by its spec alone; %s",
			t, remedy)}, true
	}
	if waited.Time < statusLimit {
		return engine.Excuse{}, false
	}
	_, missing := route.Accepted(found.content)
	return engine.Excuse{Reason: "RouteNotAccepted", Message: fmt.Sprintf("%s: %s, for %v: its weights count as verified by its spec alone; %s", t, missing, statusLimit,
		remedy)}, true
}

// Shared says whether the canary or an experiment has a share of the route's requests by this Rollout.
func (t *target) Shared(found *object) bool {
	asked := t.asked
	asked.Kind, asked.RuleName = t.kind, t.ruleName
	return route.Shared(found.content, asked)
}

// Missing says whether err says that the route does not exist, so that there is nothing to undo.
func (*target) Missing(err error) bool {
	return apierrors.IsNotFound(err) || errors.Is(err, errNotServed)
}

// Explain says for a failed read or write which route it concerns and what to do about it. A nil err stays nil.
func (t *target) Explain(err error) error {
	if err == nil {
		return nil
	}
	return explain(t.rollout, t.reference, err)
}

// explain is target.Explain for a reference that may stand for a selection.
func explain(rollout string, t reference, err error) error {
	concerns := fmt.Sprintf("%s of rollout %q", t, rollout)
	if errors.Is(err, errNotServed) {
		return fmt.Errorf("%s: %w: install the CustomResourceDefinition %s.%s, or correct %s", concerns, err, t.kind.Resource(), group, t.field)
	}
	return kube.Explain(concerns, err, kube.Remedies{
		NotFound: "create it, or correct " + t.field,
		Forbidden: fmt.Sprintf("allow the controller's ServiceAccount to get, list, watch and update %s of %s in namespace %q: apply the ClusterRole and "+
			"ClusterRoleBinding argo-rollouts-gateway-api", t.kind.Resource(), group, t.name.Namespace),
	})
}
