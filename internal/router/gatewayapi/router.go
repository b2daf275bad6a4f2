package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/internal/router/notice"
	"github.com/kedify/argo-rollouts-plugin/internal/router/promotion"
	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// errNoHeaderRoutes says that a Rollout has a header or mirror route but no route that takes one.
var errNoHeaderRoutes = errors.New("no route takes header or mirror routes")

// Router is the router argoproj-labs/gatewayAPI. What it does follows from the Rollout and the cluster alone: between calls it keeps only what it can do without,
// caches, and since when it waits for something. So a process that was killed and started again goes on where the other one was.
type Router struct {
	client     *Client
	namespaces Namespaces
	waits      *resilience.Waits
	removals   *router.Removals
	board      *notice.Board
	promotions *promotion.Guard
	log        *slog.Logger
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client, touches routes of other namespaces than a Rollout's only in those of namespaces, and logs changed
// routes, at info level, to log.
func New(client *Client, namespaces Namespaces, log *slog.Logger) *Router {
	board := notice.NewBoard(client.api, FieldManager, log)
	return &Router{
		client: client, namespaces: namespaces, waits: resilience.NewWaits(), removals: router.NewRemovals(),
		board: board, promotions: promotion.NewGuard(client.api, board), log: log,
	}
}

// Type is argoproj-labs/gatewayAPI.
func (*Router) Type() string { return Type }

// SetWeight writes the shares into every rule that has both Services, of every route that the Rollout names, and brings the Rollout's managed routes to what its steps
// ask for; the latter not when the controller has removed them in this reconcile. A route that is so already is not written, and where a watch shows that, nothing is
// asked at all. Without anything to share and without managed routes, a missing route is no error.
func (r *Router) SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error {
	want, err := r.wanted(rollout, weight, others)
	if err != nil {
		return err
	}
	return r.apply(ctx, rollout, want)
}

// wanted is what SetWeight and VerifyWeight with these arguments are about.
func (r *Router) wanted(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (intent, error) {
	want, err := intentOf(rollout, weight, others)
	if err != nil {
		return intent{}, err
	}
	if !r.removals.Underway(rollout) {
		want.asked.Managed = managedOf(rollout)
	}
	return want, nil
}

// SetHeaderRoute brings the Rollout's managed routes to what its steps up to the current one, which sets this route, ask for.
//
// The controller calls it also when it has just removed all managed routes, because the canary has no available Pod or the Rollout is aborted (its current step is the
// first one then). Requests would go to nobody, or to what was aborted, so nothing is set; the next SetWeight that finds an available canary sets it.
func (r *Router) SetHeaderRoute(ctx context.Context, rollout *v1alpha1.Rollout, header *v1alpha1.SetHeaderRoute) error {
	return r.setManaged(ctx, rollout, "setHeaderRoute", header != nil && len(header.Match) > 0)
}

// SetMirrorRoute does for mirror routes what SetHeaderRoute does for header routes.
func (r *Router) SetMirrorRoute(ctx context.Context, rollout *v1alpha1.Rollout, mirror *v1alpha1.SetMirrorRoute) error {
	return r.setManaged(ctx, rollout, "setMirrorRoute", mirror != nil && len(mirror.Match) > 0)
}

// setManaged carries out a step that sets or removes a managed route. The controller tells nobody of its errors, so the Rollout gets an event.
func (r *Router) setManaged(ctx context.Context, rollout *v1alpha1.Rollout, step string, sets bool) error {
	want, err := r.wanted(rollout, 0, nil)
	if err != nil {
		return err
	}
	if want.asked.Managed == nil {
		r.log.DebugContext(ctx, "managed routes were removed in this reconcile and stay so", "rollout", want.rollout, "step", step)
		return nil
	}
	want.asked.Weights = nil
	if sets && !want.takesManagedRoutes() {
		err = fmt.Errorf("rollout %q: %w: write useHeaderRoutes: true beside the name of an HTTPRoute or GRPCRoute in %s, or remove the step %s from "+
			"spec.strategy.canary.steps", want.rollout, errNoHeaderRoutes, configField, step)
	} else {
		err = r.apply(ctx, rollout, want)
	}
	if err != nil && !resilience.Passes(err) {
		r.board.Warn(ctx, rollout, "ManagedRouteError", err.Error())
	}
	return err
}

// RemoveManagedRoutes removes every header and mirror route of the Rollout and leaves the weights alone. Where a route is missing, there is nothing to remove.
func (r *Router) RemoveManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout) error {
	r.removals.Begin(rollout)
	want, err := intentOf(rollout, 0, nil)
	if err != nil {
		return err
	}
	want.asked.Weights, want.asked.Managed = nil, &[]route.Managed{}
	return r.apply(ctx, rollout, want)
}

// UpdateHash makes promotions safe, as package promotion has it, while the canary still has a share. The shares themselves need no hashes, because they name
// Services.
//
// It does nothing for aborted Rollouts, those scaled to zero, and those that say safePromotion: false. What is wrong with a Rollout's fields, or what may not be
// read, SetWeight reports, which comes next.
func (r *Router) UpdateHash(ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, _ []v1alpha1.WeightDestination) error {
	if !promotion.Due(rollout, canaryHash, stableHash) {
		return nil
	}
	want, err := intentOf(rollout, 0, nil)
	if err != nil || !want.safePromotion {
		return nil //nolint:nilerr // SetWeight says it, in an event
	}
	shared, err := r.shared(ctx, want)
	if err != nil {
		if resilience.Passes(err) {
			return err
		}
		return nil // SetWeight says it, in an event
	}
	promoted := promotion.Promotion{
		Rollout: rollout, Stable: want.asked.Stable, Canary: want.asked.Canary, Hash: stableHash, ConfigField: configField,
	}
	if !shared {
		r.promotions.End(promoted)
		return nil
	}
	return r.promotions.Await(ctx, promoted)
}

// shared says whether the canary has a share of the requests on any route.
func (r *Router) shared(ctx context.Context, want intent) (bool, error) {
	targets, err := r.targets(ctx, want)
	if err != nil {
		return false, err
	}
	shares := make([]bool, len(targets))
	err = sideBySide(targets, func(i int, t target) error {
		found, _, err := r.client.recent(ctx, t.kind, t.name)
		if err != nil {
			return explain(want, t, err)
		}
		shares[i] = route.CanaryWeight(found.content, want.of(t, served{})) > 0
		return nil
	})
	if slices.Contains(shares, true) {
		return true, nil
	}
	return false, err
}
