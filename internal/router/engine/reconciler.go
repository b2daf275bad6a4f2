package engine

import (
	"log/slog"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// Reconciler implements router.Router for one Routing. Its behavior follows from the Rollout and the cluster alone:
// between calls it keeps only caches, and the start times of waits. A process that is killed and restarted continues
// its predecessor's work.
type Reconciler[O kube.State] struct {
	routing    Routing[O]
	configs    *ConfigCache[Configuration[O]]
	waits      *kube.Waits
	removals   *router.RemovalTracker
	events     *rollouts.EventRecorder
	promotions *rollouts.PromotionGate
	drift      *drift[O]
	log        *slog.Logger
}

// New returns a Reconciler for routing. It reads Endpoints and writes Events, from component, through client, and logs
// changes at info level.
func New[O kube.State](routing Routing[O], client *kube.Client, component string, log *slog.Logger) *Reconciler[O] {
	events := rollouts.NewEventRecorder(client, component, log)
	return &Reconciler[O]{
		routing: routing, configs: NewConfigCache(routing.Type, routing.Configure),
		waits: kube.NewWaits(), removals: router.NewRemovalTracker(),
		events: events, promotions: rollouts.NewPromotionGate(client, events), drift: newDrift[O](client, log),
		log: log,
	}
}

// Type returns the name of the Routing.
func (r *Reconciler[O]) Type() string { return r.routing.Type }
