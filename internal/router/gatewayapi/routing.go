package gatewayapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// errNoHeaderRoutes means that a Rollout has a header or mirror route, but no route object to write it to.
var errNoHeaderRoutes = errors.New("no route accepts header or mirror routes")

// Router is the traffic router argoproj-labs/gatewayAPI.
type Router struct {
	*engine.Reconciler[*object]
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client and logs changed routes to log, at info level. Rollouts may
// use routes of other namespaces only in those of namespaces.
func New(client *Client, namespaces Namespaces, log *slog.Logger) *Router {
	r := &routing{client: client, namespaces: namespaces, log: log}
	return &Router{engine.New(engine.Routing[*object]{Type: Type, Configure: r.configure}, client.api, FieldManager, log)}
}

// routing is the state that all calls share.
type routing struct {
	client     *Client
	namespaces Namespaces
	log        *slog.Logger
}

// configure returns the routing as rollout configures it.
func (r *routing) configure(rollout *v1alpha1.Rollout) (engine.Configuration[*object], error) {
	chosen, err := settingsOf(rollout)
	if err != nil {
		return nil, err
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

// Targets returns the routes in the Rollout's configuration by name and by selector. A selector without a match is an
// error unless the request is idle.
func (c *configuration) Targets(ctx context.Context, request engine.Request) ([]engine.Target[*object], error) {
	intent, err := c.intentWithPorts(ctx, request)
	if err != nil {
		return nil, err
	}
	references, err := c.references(ctx, request)
	targets := make([]engine.Target[*object], 0, len(references))
	for _, ref := range references {
		targets = append(targets, &target{routing: c.routing, reference: ref, rollout: request.Name(), intent: intent})
	}
	return targets, err
}

// OwnedTargets returns the routes with an entry of the Rollout in their record.
func (c *configuration) OwnedTargets(request engine.Request) []engine.Target[*object] {
	var targets []engine.Target[*object]
	for _, kind := range kinds() {
		objects, current := c.client.caches[kind].ByIndexKey(request.Name())
		if !current {
			continue
		}
		for _, marked := range objects {
			targets = append(targets, &target{
				routing: c.routing, rollout: request.Name(), intent: c.intent(request), isLeftover: true,
				reference: reference{kind: kind, name: marked.name, headerRoutes: true},
			})
		}
	}
	return targets
}

// CheckManagedRoutes returns an error if the configuration has no route for header or mirror routes. Routes of a
// selector accept none, as in the argoproj-labs plugin.
func (c *configuration) CheckManagedRoutes(rollout *v1alpha1.Rollout, step string) error {
	if slices.ContainsFunc(c.settings.routes, func(r reference) bool {
		return r.headerRoutes && (r.kind.HeaderRoutes() || r.kind.MirrorRoutes())
	}) {
		return nil
	}
	return fmt.Errorf("rollout %q: %w: add useHeaderRoutes: true next to the name of an HTTPRoute or GRPCRoute in %s, "+
		"or remove the step %s from spec.strategy.canary.steps", router.NameOf(rollout), errNoHeaderRoutes, configField, step)
}

// intentWithPorts returns the intent with the ports of an experiment's Services.
func (c *configuration) intentWithPorts(ctx context.Context, request engine.Request) (route.Intent, error) {
	intent := c.intent(request)
	if intent.Weights == nil || len(intent.Weights.Others) == 0 {
		return intent, nil
	}
	var err error
	if intent.Weights.CanaryPorts, err = c.ports(ctx, intent.Namespace, intent.Canary); err != nil {
		return route.Intent{}, fmt.Errorf("rollout %q: %w", request.Name(), err)
	}
	for i := range intent.Weights.Others {
		other := &intent.Weights.Others[i]
		if other.Ports, err = c.ports(ctx, intent.Namespace, other.Service); err != nil {
			return route.Intent{}, fmt.Errorf("rollout %q: %w", request.Name(), err)
		}
	}
	return intent, nil
}

// ports returns the ports of a Service; nil if it may not be read.
func (r *routing) ports(ctx context.Context, namespace, name string) ([]serviceport.Port, error) {
	body, err := r.client.api.Do(ctx, kube.Request{Path: []string{"api", "v1", "namespaces", namespace, "services", name}})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	var service corev1.Service
	if err == nil {
		err = json.Unmarshal(body, &service)
	}
	if err != nil {
		return nil, fmt.Errorf("ports of Service %q: %w", namespace+"/"+name, err)
	}
	ports := make([]serviceport.Port, 0, len(service.Spec.Ports))
	for _, port := range service.Spec.Ports {
		ports = append(ports, serviceport.Port{Number: port.Port, Name: port.Name, Target: port.TargetPort.String()})
	}
	return ports, nil
}
