package engine

import (
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// Request is the routing that a call of the controller requests. It follows from the Rollout and the call's arguments
// alone.
type Request struct {
	// Rollout is the Rollout.
	Rollout *v1alpha1.Rollout
	// Split names the Services and, if SetsWeights is true, their weights.
	Split router.Split
	// SetsWeights is false for a call that leaves the weights as they are.
	SetsWeights bool
	// ManagedRoutes is the full set of header and mirror routes, in order.
	ManagedRoutes []managedroute.Route

	received time.Time
}

// Name returns namespace/name of the Rollout.
func (r Request) Name() string { return router.NameOf(r.Rollout) }

// IsIdle reports whether the request needs no object: all requests go to the stable Service, and there are no managed
// routes.
func (r Request) IsIdle() bool {
	return (!r.SetsWeights || r.Split.IsStableOnly()) && len(r.ManagedRoutes) == 0
}

// IsFullCanary reports whether the canary gets all requests, as before the old ReplicaSet is scaled down.
func (r Request) IsFullCanary() bool {
	return r.SetsWeights && r.Split.Stable.Weight == 0 && r.Split.Canary.Weight > 0
}

// EndsCanary reports whether the Rollout is on its way back to the stable version: in an abort, or because its template
// is the stable one again. With dynamicStableScale that takes several weights.
func (r Request) EndsCanary() bool {
	status := r.Rollout.Status
	return status.Abort || status.StableRS != "" && status.StableRS == status.CurrentPodHash
}

// reset returns the Request that sends all requests to the stable Service and has no managed routes.
func (r Request) reset() Request {
	r.Split.Stable.Weight, r.Split.Canary.Weight, r.Split.Others = r.Split.Total(), 0, nil
	r.SetsWeights, r.ManagedRoutes = true, nil
	return r
}

// changesSplit reports whether the weights differ from those in the Rollout's status, as in the first reconcile of a
// step. A Rollout without status.canary.weights has not split traffic yet.
func (r Request) changesSplit() bool {
	previous := r.Rollout.Status.Canary.Weights
	if previous == nil {
		return !r.Split.IsStableOnly()
	}
	if int64(previous.Canary.Weight) != int64(r.Split.Canary.Weight) || len(previous.Additional) != len(r.Split.Others) {
		return true
	}
	for i, other := range r.Split.Others {
		before := previous.Additional[i]
		if before.ServiceName != other.Service || int64(before.Weight) != int64(other.Weight) {
			return true
		}
	}
	return false
}

// IsAtRest reports whether no step of the Rollout depends on the result: there is no canary traffic, and there was none
// before.
func (r Request) IsAtRest() bool { return r.IsIdle() && !r.changesSplit() }

// fingerprint identifies the requested routing while a call waits for it.
func (r Request) fingerprint() string { return fmt.Sprint(r.Split, r.ManagedRoutes) }

// request returns the Request of a call with these weights, and the Rollout's configuration of the router. An error
// names the invalid field of the Rollout. There are no managed routes if the controller has removed them in the current
// reconcile.
func (r *Reconciler[O]) request(
	rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) (Request, Configuration[O], error) {
	received := time.Now()
	split, err := router.SplitFor(rollout, weight, others)
	if err != nil {
		return Request{}, nil, err
	}
	config, err := r.configs.Get(rollout)
	if err != nil {
		return Request{}, nil, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	request := Request{Rollout: rollout, Split: split, SetsWeights: true, received: received}
	if !r.removals.IsRemoved(rollout) {
		request.ManagedRoutes = router.ManagedRoutes(rollout)
	}
	return request, config, nil
}
