// Package router is what every traffic router of this project has in common: the Router interface, in which a router is written, and Plugin, which answers
// the Argo Rollouts controller's remote procedure calls with one.
//
// The controller starts a plugin process once, calls it from several workers at a time and never sets a time limit. So Plugin gives every call a
// deadline, and turns a panic into the answer of the call that caused it: the process serves every Rollout of the cluster.
package router

import (
	"context"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// Router carries out the traffic decisions of Argo Rollouts for one kind of routing object. Calls come concurrently, also for the same Rollout, and must be
// repeatable: the controller calls SetWeight and VerifyWeight on every reconcile, changed or not. Every method returns by the deadline of its context.
//
// Weights are parts of the Rollout's maxTrafficWeight, 100 by default. Rollouts arrive by encoding/gob, which drops pointers to zero values: a nil
// pointer in them can mean zero, so it must never mean "not set" (argo-rollouts rollout/trafficrouting/plugin/rpc).
//
// An error is shown to the user in the Rollout's events; it names the object, the field and the remedy. A nil error says that the work is done.
type Router interface {
	// Type names the router as Rollouts name it under trafficRouting.plugins.
	Type() string
	// SetWeight gives the canary weight parts of the requests, each of others its own weight, and the stable Service what remains.
	SetWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) error
	// VerifyWeight says whether requests are shared as SetWeight with the same arguments asks for. The controller waits while the answer is false and
	// asks again after 10 s; an error it asks about again only at its next resync, up to 15 min later. So trouble that can pass is false without an error.
	VerifyWeight(ctx context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (bool, error)
	// UpdateHash tells the pod template hashes of the canary and the stable ReplicaSet, before the weights that belong to them are set.
	UpdateHash(ctx context.Context, rollout *v1alpha1.Rollout, canaryHash, stableHash string, others []v1alpha1.WeightDestination) error
	// SetHeaderRoute sends requests with certain headers to the canary, whatever the weights. A route without matches removes the one of its name.
	SetHeaderRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetHeaderRoute) error
	// SetMirrorRoute sends copies of certain requests to the canary and drops the answers. A route without matches removes the one of its name.
	SetMirrorRoute(ctx context.Context, rollout *v1alpha1.Rollout, route *v1alpha1.SetMirrorRoute) error
	// RemoveManagedRoutes removes every header and mirror route of the Rollout. It never touches weights: the controller calls it in the middle of
	// promotions and aborts too, before it sets the weight.
	RemoveManagedRoutes(ctx context.Context, rollout *v1alpha1.Rollout) error
}
