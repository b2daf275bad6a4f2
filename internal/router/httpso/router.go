package httpso

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/notice"
	"github.com/kedify/argo-rollouts-plugin/internal/router/promotion"
	"github.com/kedify/argo-rollouts-plugin/internal/router/resilience"
)

// Type is the name under which Rollouts and the controller's configuration know this router.
const Type = "kedify/http"

// Router is the router kedify/http. What it does follows from the Rollout and the cluster alone: between calls it keeps only what it can do without, a cache,
// and since when it waits for something. So a process that was killed and started again goes on where the other one was.
type Router struct {
	client     *Client
	pulse      *pulse
	waits      *resilience.Waits
	board      *notice.Board
	promotions *promotion.Guard
	log        *slog.Logger
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client, takes the Lease of that name for the sign of life of the interceptors, and logs changed weights, at
// info level, to log.
func New(client *Client, interceptors types.NamespacedName, log *slog.Logger) *Router {
	board := notice.NewBoard(client.api, FieldManager, log)
	return &Router{
		client: client, pulse: newPulse(client.api, interceptors, log), waits: resilience.NewWaits(),
		board: board, promotions: promotion.NewGuard(client.api, board), log: log,
	}
}

// Type is kedify/http.
func (*Router) Type() string { return Type }

// SetWeight writes the shares into the annotation, stable first, or removes it when the stable Service gets everything. An annotation that reads so
// already is not written, and where a watch shows that, nothing is asked at all. What anybody else wrote there is overwritten, unless another Rollout did, which
// is an error while that Rollout exists and names the object. With nothing to share, a missing HTTPScaledObject is no error: there is no
// annotation to remove.
func (r *Router) SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error {
	want, err := intentOf(rollout, weight, others)
	if err != nil {
		return err
	}
	read := r.client.recent
	err = resilience.Retry(ctx, func(ctx context.Context) error {
		err := r.write(ctx, want, read)
		read = r.live // the cache had its chance
		return err
	})
	if apierrors.IsNotFound(err) && want.shares.Idle() {
		return nil
	}
	return explain(want, err)
}

// live reads an object from the API server.
func (r *Router) live(ctx context.Context, name types.NamespacedName) (state *object, cached bool, err error) {
	state, err = r.client.get(ctx, name)
	return state, false, err
}

// write brings the annotations to what want asks for, in at most one read and one write. Where another Rollout seems to own the object, that is looked up too.
func (r *Router) write(ctx context.Context, want intent, read func(context.Context, types.NamespacedName) (*object, bool, error)) error {
	found, cached, err := read(ctx, want.object)
	if err != nil {
		return err
	}
	if _, isForeign := want.foreign(found); isForeign && cached {
		if found, err = r.client.get(ctx, want.object); err != nil {
			return err
		}
	}
	if err := r.concede(ctx, want, found); err != nil {
		return err
	}
	text, mark := want.text(found), want.mark(found)
	if want.holds(found) && found.owner == mark {
		return nil
	}
	err = r.client.annotate(ctx, found, map[string]string{
		httpv1alpha1.AnnotationWeightedBackends:      text,
		httpv1alpha1.AnnotationWeightedBackendsOwner: mark,
	})
	if err != nil {
		return err
	}
	r.log.InfoContext(ctx, "weighted backends written", "rollout", want.rollout, "httpScaledObject", want.object.String(),
		"stableWeight", want.shares.Stable.Weight, "canaryWeight", want.shares.Canary.Weight, "removed", text == "")
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
