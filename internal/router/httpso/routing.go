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

// Type is the router's name in Rollouts and in the controller's configuration.
const Type = "kedify/http"

// Router is the traffic router kedify/http.
type Router struct {
	*engine.Reconciler[*object]
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client, monitors the interceptors by the Lease of that name, and
// logs changed weights to log, at info level.
func New(client *Client, interceptors types.NamespacedName, log *slog.Logger) *Router {
	r := &routing{client: client, monitor: newLeaseMonitor(client.api, interceptors, log), log: log}
	routes := &routing{client: client.routes, monitor: r.monitor, log: log}
	r.kinds = []*routing{r, routes}
	routes.kinds = r.kinds
	return &Router{engine.New(engine.Routing[*object]{Type: Type, Configure: r.configure}, client.api, FieldManager, log)}
}

// routing is the state that all calls for one kind of object share.
type routing struct {
	client  *Client
	monitor *leaseMonitor
	log     *slog.Logger
	kinds   []*routing // of HTTPScaledObjects and of InterceptorRoutes
}

// configure returns the routing as rollout configures it.
func (r *routing) configure(rollout *v1alpha1.Rollout) (engine.Configuration[*object], error) {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return nil, err
	}
	if chosen.isRoute {
		r = r.kinds[1]
		r.client.markUsed()
	}
	return &configuration{routing: r, settings: chosen}, nil
}

// configuration is the routing as a Rollout configures it.
type configuration struct {
	*routing

	settings settings
}

// Common returns the settings that every router has.
func (c *configuration) Common() engine.Settings { return c.settings.Settings }

// Targets returns the HTTPScaledObject in the Rollout's configuration and those of the other triggers of the same
// ScaledObject, or the InterceptorRoute. It returns none for a request without weights if no step has header or mirror routes.
func (c *configuration) Targets(ctx context.Context, request engine.Request) ([]engine.Target[*object], error) {
	if !request.SetsWeights && !router.HasManagedRouteSteps(request.Rollout) {
		return nil, nil
	}
	name := types.NamespacedName{Namespace: request.Rollout.Namespace, Name: c.settings.object}
	configured := c.target(request, name)
	if err := split.Validate(configured.desired.backends()); err != nil {
		return nil, fmt.Errorf("rollout %q: the Services of spec.strategy.canary and its experiments: %w",
			configured.desired.rollout, err)
	}
	if len(request.ManagedRoutes) > 0 {
		if _, err := managedroute.Parse(managedroute.Format(request.ManagedRoutes)); err != nil {
			return nil, fmt.Errorf("rollout %q: the steps setHeaderRoute and setMirrorRoute of spec.strategy.canary.steps: %w",
				configured.desired.rollout, err)
		}
	}
	names, listForbidden, err := c.client.objectsOf(ctx, request, configured.desired.object)
	targets := make([]engine.Target[*object], 0, len(names))
	for _, name := range names {
		t := c.target(request, name)
		t.listForbidden = listForbidden
		targets = append(targets, t)
	}
	return targets, configured.Explain(err)
}

// OwnedTargets returns the objects of all kinds with weights and the owner mark of the Rollout.
func (r *routing) OwnedTargets(request engine.Request) []engine.Target[*object] {
	var targets []engine.Target[*object]
	for _, ofKind := range r.kinds {
		objects, current := ofKind.client.cache.ByIndexKey(request.Name())
		if !current {
			continue
		}
		for _, marked := range objects {
			targets = append(targets, ofKind.target(request, marked.name))
		}
	}
	return targets
}

// CheckManagedRoutes returns nil: Targets validates the routes.
func (*routing) CheckManagedRoutes(*v1alpha1.Rollout, string) error { return nil }

// target returns the object of that name, bound to request, with the stickiness of the configuration.
func (c *configuration) target(request engine.Request, name types.NamespacedName) *target {
	t := c.routing.target(request, name)
	t.desired.stickiness, t.desired.stickinessErr = c.settings.stickiness, c.settings.stickinessErr
	return t
}

// target returns the object of that name, bound to request, without stickiness.
func (r *routing) target(request engine.Request, name types.NamespacedName) *target {
	return &target{routing: r, desired: desiredState{
		rollout: request.Name(), kind: r.client.kind, object: name, owner: ownerOf(request.Rollout),
		split: request.Split, setsWeights: request.SetsWeights, managedRoutes: request.ManagedRoutes,
		endsCanary: request.EndsCanary(),
	}}
}
