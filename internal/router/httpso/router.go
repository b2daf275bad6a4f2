package httpso

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// Type is the name under which Rollouts and the controller's configuration know this router.
const Type = "kedify/http"

// Router is the router kedify/http. It keeps nothing between calls but its connection, so a process that was killed and started again goes on
// where the other one was.
type Router struct {
	client *Client
	log    *slog.Logger
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client and logs changed weights, at info level, to log.
func New(client *Client, log *slog.Logger) *Router {
	return &Router{client: client, log: log}
}

// Type is kedify/http.
func (*Router) Type() string { return Type }

// SetWeight writes the shares into the annotation, stable first, or removes it when the stable Service gets everything. An annotation that reads so
// already is not written. With nothing to share, a missing HTTPScaledObject is no error: there is no annotation to remove.
func (r *Router) SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error {
	want, err := intentOf(rollout, weight, others)
	if err != nil {
		return err
	}
	err = retry(ctx, func(ctx context.Context) error { return r.write(ctx, want) })
	if apierrors.IsNotFound(err) && want.shares.Idle() {
		return nil
	}
	return explain(want, err)
}

// write brings the live object's annotation to what want asks for, in at most one read and one write.
func (r *Router) write(ctx context.Context, want intent) error {
	object, err := r.client.Get(ctx, want.object)
	if err != nil {
		return err
	}
	if want.holds(object) {
		return nil
	}
	text := want.text(object)
	if err := r.client.Annotate(ctx, object, httpv1alpha1.AnnotationWeightedBackends, text); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "weighted backends written", "rollout", want.rollout, "httpScaledObject", want.object.String(),
		"stableWeight", want.shares.Stable.Weight, "canaryWeight", want.shares.Canary.Weight, "removed", text == "")
	return nil
}

// VerifyWeight says whether the live object carries the annotation exactly as SetWeight writes it. That is the intent: what the proxies have taken is not
// looked at yet. Whatever keeps it from reading the object is logged and answered with false, because the controller asks about false again after 10 s
// but about an error only minutes later; and SetWeight, which it calls before each VerifyWeight, reports what does not pass.
func (r *Router) VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool, error) {
	want, err := intentOf(rollout, weight, others)
	if err != nil {
		return false, err
	}
	object, err := r.client.Get(ctx, want.object)
	switch {
	case apierrors.IsNotFound(err) && want.shares.Idle():
		return true, nil
	case err != nil:
		r.log.WarnContext(ctx, "weights cannot be verified now", "rollout", want.rollout, "error", explain(want, err).Error())
		return false, nil
	}
	return want.holds(object), nil
}

// UpdateHash does nothing and succeeds: the shares name Services, and it is the controller that points those at the ReplicaSets of these hashes.
func (*Router) UpdateHash(context.Context, *v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) error {
	return nil
}

// SetHeaderRoute refuses to set a header route, which this router does not offer. Removing one succeeds: none was ever set.
func (*Router) SetHeaderRoute(_ context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) error {
	if route == nil || len(route.Match) == 0 {
		return nil
	}
	return fmt.Errorf("rollout %q: router %s offers no header routes: remove the step setHeaderRoute %q from spec.strategy.canary.steps",
		router.NameOf(rollout), Type, route.Name)
}

// SetMirrorRoute refuses to set a mirror route, which this router does not offer. Removing one succeeds: none was ever set.
func (*Router) SetMirrorRoute(_ context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) error {
	if route == nil || len(route.Match) == 0 {
		return nil
	}
	return fmt.Errorf("rollout %q: router %s offers no mirror routes: remove the step setMirrorRoute %q from spec.strategy.canary.steps",
		router.NameOf(rollout), Type, route.Name)
}

// RemoveManagedRoutes has nothing to remove, because no header or mirror route is ever set, and leaves the weights alone.
func (*Router) RemoveManagedRoutes(context.Context, *v1alpha1.Rollout) error { return nil }
