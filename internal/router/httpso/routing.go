package httpso

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// Type is the name under which Rollouts and the controller's configuration know this router.
const Type = "kedify/http"

// Router is the router kedify/http.
type Router struct {
	*engine.Reconciler[*object]
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client, takes the Lease of that name for the sign of life of the interceptors, and logs changed weights, at
// info level, to log.
func New(client *Client, interceptors types.NamespacedName, log *slog.Logger) *Router {
	added := &routing{client: client, pulse: newPulse(client.api, interceptors, log), log: log, memo: engine.NewMemo(Type, settingsOf)}
	return &Router{engine.New(added, client.api, FieldManager, log)}
}

// routing is what this router adds to the flow of package reconcile.
type routing struct {
	client *Client
	pulse  *pulse
	log    *slog.Logger
	memo   *engine.Memo[settings]
}

var _ engine.Routing[*object] = (*routing)(nil)

// Type is kedify/http.
func (*routing) Type() string { return Type }

// ConfigField is the router's configuration in a Rollout, as messages name it.
func (*routing) ConfigField() string { return configField }

// Configured reads that configuration.
func (r *routing) Configured(rollout *v1alpha1.Rollout) (engine.Configured[*object], error) {
	chosen, err := r.memo.Read(rollout)
	if err != nil {
		return nil, err
	}
	return &configured{routing: r, chosen: chosen}, nil
}

// configured is the routing as a Rollout configures it.
type configured struct {
	*routing

	chosen settings
}

// Settings are what every router has.
func (c *configured) Settings() engine.Settings { return c.chosen.Settings }

// Targets are the HTTPScaledObject that the Rollout names and those of the other triggers of the same ScaledObject, where weights are asked for or a step names
// header or mirror routes.
func (c *configured) Targets(ctx context.Context, ask engine.Ask) ([]engine.Target[*object], error) {
	if !ask.Weigh && !router.NamesManagedRoutes(ask.Rollout) {
		return nil, nil
	}
	named := c.target(ask, types.NamespacedName{Namespace: ask.Rollout.Namespace, Name: c.chosen.object})
	if err := split.Validate(named.want.backends()); err != nil {
		return nil, fmt.Errorf("rollout %q: the Services of spec.strategy.canary and its experiments cannot share requests: %w", named.want.rollout, err)
	}
	if len(ask.Managed) > 0 {
		if _, err := managedroute.Parse(managedroute.Format(ask.Managed)); err != nil {
			return nil, fmt.Errorf("rollout %q: the steps setHeaderRoute and setMirrorRoute of spec.strategy.canary.steps: %w", named.want.rollout, err)
		}
	}
	names, isAlone, err := c.client.objects(ctx, ask, named.want.object)
	targets := make([]engine.Target[*object], 0, len(names))
	for _, name := range names {
		t := c.target(ask, name)
		t.isAlone = isAlone
		targets = append(targets, t)
	}
	return targets, named.Explain(err)
}

// Leftovers are the HTTPScaledObjects that have the Rollout's mark beside weights and are none of targets.
func (r *routing) Leftovers(ask engine.Ask, targets []engine.Target[*object]) []engine.Target[*object] {
	var left []engine.Target[*object]
	marked, believed := r.client.cache.Marked(ask.Name())
	if !believed {
		return nil
	}
	for _, found := range marked {
		t := r.target(ask, found.name)
		isTarget := false
		for _, other := range targets {
			isTarget = isTarget || other.String() == t.String()
		}
		if !isTarget {
			left = append(left, t)
		}
	}
	return left
}

// OffersManagedRoutes refuses none: Targets says what is wrong with the conditions of one.
func (*routing) OffersManagedRoutes(*v1alpha1.Rollout, string) error { return nil }

// target is the object of that name, bound to what is asked.
func (r *routing) target(ask engine.Ask, name types.NamespacedName) *target {
	return &target{routing: r, want: intent{
		rollout: ask.Name(), object: name, owner: ownerOf(ask.Rollout), shares: ask.Shares,
		weigh: ask.Weigh, managed: ask.Managed,
	}}
}
