// Package router contains what all traffic routers of this project have in common: the Router interface, which each of
// them implements, and Plugin, which serves a Router to the Argo Rollouts controller over RPC.
//
// The controller starts a plugin process once, calls it concurrently from several workers, and sets no timeout. So
// Plugin gives each call a deadline and turns a panic into an error of the call: one process serves all Rollouts of the
// cluster.
package router

import (
	"context"
	"errors"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// ErrUndecided is the error of a VerifyWeight that has no result: the controller continues as with a router that cannot
// verify weights.
var ErrUndecided = errors.New("the weight is neither verified nor unverified")

// Router implements traffic routing for one kind of routing object. Calls are concurrent, also for the same Rollout,
// and must be idempotent: the controller calls SetWeight and VerifyWeight on each reconcile. Every method returns by
// the deadline of its context.
//
// Weights are relative to the Rollout's maxTrafficWeight, 100 by default. Rollouts arrive by encoding/gob, which drops
// pointers to zero values: a nil pointer can mean zero and must never be read as "not set" (argo-rollouts
// rollout/trafficrouting/plugin/rpc).
//
// An error is shown to the user in an Event of the Rollout; it names the object, the field and the fix. A nil error
// means that the work is done.
type Router interface {
	// Type returns the router's name in Rollouts, under trafficRouting.plugins.
	Type() string
	// SetWeight sets the weight of the canary Service and of each Service in others. The stable Service gets the rest.
	SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error
	// VerifyWeight reports whether the weights of a SetWeight with the same arguments are applied. After false the
	// controller calls again in 10 s, after an error only at its next resync, up to 15 min later. So the result of a
	// transient error is false without an error. For the full weight, false makes the controller neither scale nor
	// update the status; ErrUndecided does not.
	VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool,
		error)
	// UpdateHash receives the pod template hashes of the canary and the stable ReplicaSet, before the weights that belong
	// to them are set.
	UpdateHash(
		ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, others []v1alpha1.WeightDestination,
	) error
	// SetHeaderRoute routes requests with certain headers to the canary, whatever the weights. A route without matches is
	// removed.
	SetHeaderRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) error
	// SetMirrorRoute mirrors certain requests to the canary. A route without matches is removed.
	SetMirrorRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) error
	// RemoveManagedRoutes removes all header and mirror routes of the Rollout. The controller also calls it during
	// promotions and aborts, before it sets the weight. So it leaves weights alone, except in an abort: it then removes
	// the canary's weight as soon as one stable Pod is ready, unless the Rollout configures otherwise.
	RemoveManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout) error
}
