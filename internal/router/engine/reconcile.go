// Package engine is what every traffic router does in the same order: read, cached where that is safe; plan; write what differs, and plan anew after a
// conflict; judge whether the data plane has taken it; and tell the user what stands still. What the controller of Argo Rollouts asks for, and when, is dealt
// with here and nowhere else. A router adds its settings, and what a plan is for its kind of object: see Routing and Target.
package engine

import (
	"context"
	"log/slog"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// The keys of a router's configuration in a Rollout that every router has.
const (
	// PromotionKey is the key for whether a promotion waits until the stable Service has the promoted Pods. Default true.
	PromotionKey = rollouts.OptOutKey
	// AbortKey is the key for whether an abort ends the canary's share as soon as a stable Pod is ready, in place of when all are. Default true.
	AbortKey = "immediateAbort"
)

// Settings are what a Rollout configures of any router.
type Settings struct {
	// VerifyDataPlane says that a weight counts as verified when the data plane has taken it; else, when it is written.
	VerifyDataPlane bool
	// SafePromotion is the value of PromotionKey.
	SafePromotion bool
	// ImmediateAbort is the value of AbortKey.
	ImmediateAbort bool
}

// Routing is one kind of traffic routing, with objects of type O. Calls come concurrently.
type Routing[O kube.State] interface {
	// Type names the router as Rollouts name it under trafficRouting.plugins.
	Type() string
	// ConfigField is the router's configuration in a Rollout, as messages name it.
	ConfigField() string
	// Configured reads that configuration. An error names the field that is wrong.
	Configured(rollout *v1alpha1.Rollout) (Configured[O], error)
}

// Configured is a Routing as one Rollout configures it, for one call.
type Configured[O kube.State] interface {
	// Settings are what every router has.
	Settings() Settings
	// Targets are the objects that a Rollout shares its requests by, each bound to what is asked. There are none where nothing is asked that this routing could
	// do. With an error, those that there are; each error names what it concerns.
	Targets(ctx context.Context, ask Ask) ([]Target[O], error)
	// Leftovers are the objects, as far as a cache tells, that carry the Rollout's mark and are none of targets, each bound to what is asked.
	Leftovers(ask Ask, targets []Target[O]) []Target[O]
	// OffersManagedRoutes returns nil where the Rollout can have the header or mirror route that a step sets, else an error that names the step.
	OffersManagedRoutes(rollout *v1alpha1.Rollout, step string) error
}

// Target is one object, bound to what is asked of it.
type Target[O kube.State] interface {
	// String names the object in messages, with its kind.
	String() string
	// Recent returns the object from a cache where that can be believed, else from the API server; cached tells which.
	Recent(ctx context.Context) (found O, cached bool, err error)
	// Read returns the object from the API server.
	Read(ctx context.Context) (O, error)
	// Await waits up to the limit of statusWait until decided says true of a state of the object, and returns the last state.
	Await(ctx context.Context, found O, decided func(O) bool) (last O, err error)
	// Plan works out what is to be written. It may look up owners that stand in the way, and writes nothing.
	Plan(ctx context.Context, found O) (Change, error)
	// Holds returns nil when requests are shared by found as is asked, and otherwise what differs.
	Holds(ctx context.Context, found O) error
	// Taken says whether the data plane shares requests as found says, with the numbers and the remedy where it doesn't.
	Taken(ctx context.Context, found O) (Verdict, string)
	// Excuse says whether a weight that the data plane has not taken for that long counts as verified all the same, and how the user is told.
	Excuse(found O, waited Waited) (Excuse, bool)
	// Shared says whether anybody but the stable Service gets requests by the Rollout.
	Shared(found O) bool
	// Explain says for a failed read or write which object it concerns and what to do about it. A nil err stays nil.
	Explain(err error) error
	// Missing says whether err says that there is no such object, so that there is nothing to undo.
	Missing(err error) bool
}

// PodsReporter is a Target that knows better than Endpoints tell which Pods the stable Service has.
type PodsReporter interface {
	// StableHas says whether the stable Service has the Pods of a hash and no others; judged is false where that isn't known.
	StableHas(ctx context.Context, hash string) (moved, judged bool, err error)
	// Changed returns a channel that is closed when StableHas may say something new.
	Changed() <-chan struct{}
}

// Change is what is to be done to one object.
type Change struct {
	// Write does it, and fails with a conflict when the object is no longer the one that was planned for. It is nil where nothing is to be done.
	Write func(ctx context.Context) error
	// Attributes tell the log what is written.
	Attributes []any
	// Warnings tell what the user should know though the work is done.
	Warnings []string
}

// Verdict is whether the data plane has taken something.
type Verdict int

// The verdicts.
const (
	// Unknown says that nobody can tell.
	Unknown Verdict = iota
	// Taken says that all of it has.
	Taken
	// NotTaken says that part of it has not.
	NotTaken
)

// Excuse is how a user is told that a weight counts as verified although the data plane was not heard to have taken it.
type Excuse struct {
	// Reason is the event's reason.
	Reason string
	// Message is the event's text.
	Message string
}

// Reconciler answers the controller's calls for one Routing. What it does follows from the Rollout and the cluster alone: between calls it keeps only what it can
// do without, and since when it waits for something. So a process that was killed and started again goes on where the other one was.
type Reconciler[O kube.State] struct {
	routing    Routing[O]
	client     *kube.Client
	waits      *kube.Waits
	removals   *router.Removals
	board      *rollouts.Board
	promotions *rollouts.Guard
	log        *slog.Logger
}

// New returns a Reconciler for routing. It reads Endpoints and writes events, as coming from component, through client; what it changes, it logs at info level.
func New[O kube.State](routing Routing[O], client *kube.Client, component string, log *slog.Logger) *Reconciler[O] {
	board := rollouts.NewBoard(client, component, log)
	return &Reconciler[O]{
		routing: routing, client: client, waits: kube.NewWaits(), removals: router.NewRemovals(),
		board: board, promotions: rollouts.NewGuard(client, board), log: log,
	}
}

// Type is the Routing's.
func (r *Reconciler[O]) Type() string { return r.routing.Type() }
