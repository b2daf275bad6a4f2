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

// errNoHeaderRoutes says that a Rollout has a header or mirror route but no route that takes one.
var errNoHeaderRoutes = errors.New("no route takes header or mirror routes")

// Router is the router argoproj-labs/gatewayAPI.
type Router struct {
	*engine.Reconciler[*object]
}

var _ router.Router = (*Router)(nil)

// New returns a Router that reads and writes through client, touches routes of other namespaces than a Rollout's only in those of namespaces, and logs changed
// routes, at info level, to log.
func New(client *Client, namespaces Namespaces, log *slog.Logger) *Router {
	added := &routing{client: client, namespaces: namespaces, log: log, memo: engine.NewMemo(Type, settingsOf)}
	return &Router{engine.New(added, client.api, FieldManager, log)}
}

// routing is what this router adds to the flow of package reconcile.
type routing struct {
	client     *Client
	namespaces Namespaces
	log        *slog.Logger
	memo       *engine.Memo[settings]
}

var _ engine.Routing[*object] = (*routing)(nil)

// Type is argoproj-labs/gatewayAPI.
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

// Targets are the routes that the Rollout names, and those that its selections find. A selection that finds none is an error where something is to be shared.
func (c *configured) Targets(ctx context.Context, ask engine.Ask) ([]engine.Target[*object], error) {
	asked, err := c.intentOf(ctx, ask, c.chosen)
	if err != nil {
		return nil, err
	}
	found, err := c.references(ctx, ask, c.chosen)
	targets := make([]engine.Target[*object], 0, len(found))
	for _, named := range found {
		targets = append(targets, &target{routing: c.routing, reference: named, rollout: ask.Name(), asked: asked})
	}
	return targets, err
}

// Leftovers are the routes whose record names the Rollout and that are none of targets.
func (c *configured) Leftovers(ask engine.Ask, targets []engine.Target[*object]) []engine.Target[*object] {
	var left []engine.Target[*object]
	for _, kind := range kinds() {
		marked, believed := c.client.caches[kind].Marked(ask.Name())
		if !believed {
			continue
		}
		for _, found := range marked {
			t := &target{routing: c.routing, rollout: ask.Name(), asked: intent(ask, c.chosen), isLeft: true, reference: reference{kind: kind, name: found.name, headerRoutes: true}}
			if !slices.ContainsFunc(targets, func(other engine.Target[*object]) bool { return other.String() == t.String() }) {
				left = append(left, t)
			}
		}
	}
	return left
}

// OffersManagedRoutes says whether a header or mirror route has a route to go to. Routes that are found by their labels take none, as with the published plugin.
func (c *configured) OffersManagedRoutes(rollout *v1alpha1.Rollout, step string) error {
	if slices.ContainsFunc(c.chosen.routes, func(t reference) bool { return t.headerRoutes && (t.kind.HeaderRoutes() || t.kind.MirrorRoutes()) }) {
		return nil
	}
	return fmt.Errorf("rollout %q: %w: write useHeaderRoutes: true beside the name of an HTTPRoute or GRPCRoute in %s, or remove the step %s from "+
		"spec.strategy.canary.steps", router.NameOf(rollout), errNoHeaderRoutes, configField, step)
}

// intentOf is intent with the ports of an experiment's Services.
func (r *routing) intentOf(ctx context.Context, ask engine.Ask, chosen settings) (route.Intent, error) {
	asked := intent(ask, chosen)
	if asked.Weights == nil || len(asked.Weights.Others) == 0 {
		return asked, nil
	}
	var err error
	if asked.Weights.CanaryPorts, err = r.ports(ctx, asked.Namespace, asked.Canary); err != nil {
		return route.Intent{}, fmt.Errorf("rollout %q: %w", ask.Name(), err)
	}
	for i := range asked.Weights.Others {
		other := &asked.Weights.Others[i]
		if other.Ports, err = r.ports(ctx, asked.Namespace, other.Service); err != nil {
			return route.Intent{}, fmt.Errorf("rollout %q: %w", ask.Name(), err)
		}
	}
	return asked, nil
}

// ports are those of a Service; nil where it may not be read.
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
