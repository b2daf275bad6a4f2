package engine

import (
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// Ask is what a call asks for, worked out from the Rollout alone.
type Ask struct {
	// Rollout is the Rollout.
	Rollout *v1alpha1.Rollout
	// Shares are the Services and, where Weigh says so, how requests are to be shared between them.
	Shares router.Shares
	// Weigh says that Shares are asked for. Otherwise weights stay as they are.
	Weigh bool
	// Managed is the full set of header and mirror routes, in order.
	Managed []managedroute.Route

	begun time.Time // when the call came
}

// Name is namespace/name of the Rollout.
func (a Ask) Name() string { return router.NameOf(a.Rollout) }

// Idle says whether nothing is asked for that needs an object: everything goes to the stable Service, and there are no managed routes.
func (a Ask) Idle() bool {
	return (!a.Weigh || a.Shares.Idle()) && len(a.Managed) == 0
}

// Full says whether the canary gets every request, as before the old ReplicaSet is scaled down.
func (a Ask) Full() bool { return a.Weigh && a.Shares.Stable.Weight == 0 && a.Shares.Canary.Weight > 0 }

// undone is the Ask that takes everything back: all requests to the stable Service, no managed routes.
func (a Ask) undone() Ask {
	total := a.Shares.Stable.Weight + a.Shares.Canary.Weight
	for _, other := range a.Shares.Others {
		total += other.Weight
	}
	a.Shares.Stable.Weight, a.Shares.Canary.Weight, a.Shares.Others = total, 0, nil
	a.Weigh, a.Managed = true, nil
	return a
}

// changes says whether the shares are others than those that the Rollout's status tells of, as in the first reconcile of a step. A Rollout without such a status
// has shared nothing yet.
func (a Ask) changes() bool {
	known := a.Rollout.Status.Canary.Weights
	if known == nil {
		return !a.Shares.Idle()
	}
	if int64(known.Canary.Weight) != int64(a.Shares.Canary.Weight) || len(known.Additional) != len(a.Shares.Others) {
		return true
	}
	for i, other := range a.Shares.Others {
		if known.Additional[i].ServiceName != other.Service || int64(known.Additional[i].Weight) != int64(other.Weight) {
			return true
		}
	}
	return false
}

// AtRest says whether nobody waits for the answer: nothing is shared, nor was it before.
func (a Ask) AtRest() bool { return a.Idle() && !a.changes() }

// about tells what is asked for apart from what else can be, for as long as it is waited for.
func (a Ask) about() string { return fmt.Sprint(a.Shares, a.Managed) }

// Waited is for how long something is asked for and not there.
type Waited struct {
	// Time is for how long.
	Time time.Duration
	// Full says that it is the full weight: the controller neither scales nor reports until that is verified.
	Full bool
}

// asked is what a call for these weights asks for, and the routing as the Rollout configures it; or which field of the Rollout is wrong. There are no managed routes when the
// controller has removed them in this reconcile.
func (r *Reconciler[O]) asked(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (Ask, Configured[O], error) {
	begun := time.Now()
	shares, err := router.SharesOf(rollout, weight, others)
	if err != nil {
		return Ask{}, nil, err
	}
	configured, err := r.routing.Configured(rollout)
	if err != nil {
		return Ask{}, nil, fmt.Errorf("rollout %q: %w", router.NameOf(rollout), err)
	}
	ask := Ask{Rollout: rollout, Shares: shares, Weigh: true, begun: begun}
	if !r.removals.Underway(rollout) {
		ask.Managed = router.ManagedRoutes(rollout)
	}
	return ask, configured, nil
}
