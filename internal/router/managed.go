package router

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// revisionAnnotation is where the controller counts the revisions of a Rollout, from 1 on (argo-rollouts utils/annotations, RevisionAnnotation).
const revisionAnnotation = "rollout.argoproj.io/revision"

// ManagedRoute is a header or a mirror route that a Rollout has. Exactly one of Header and Mirror is set, and it has matches.
type ManagedRoute struct {
	// Name is the route's name, as trafficRouting.managedRoutes has it.
	Name string
	// Header is the step that set a header route.
	Header *v1alpha1.SetHeaderRoute
	// Mirror is the step that set a mirror route.
	Mirror *v1alpha1.SetMirrorRoute
}

// ManagedRoutes is the full set of header and mirror routes that rollout should have now, in the order of trafficRouting.managedRoutes, and after those the ones
// that are not named there.
//
// The controller calls SetHeaderRoute and SetMirrorRoute only while their step is the current one, but RemoveManagedRoutes whenever the canary has no available
// Pod: a canary that loses its Pods for a moment would lose its routes for good. So the set follows from the Rollout alone: from the steps up to the
// current one, the last that names a route wins, and one without matches removes it.
//
// Outside of a canary the set is empty, whatever the steps: after a promotion the current step is the one behind the last, and after an abort the first. Behind the
// last step it is empty too for a Rollout with a rollbackWindow: a rollback within it goes there at once, without the steps in between.
func ManagedRoutes(rollout *v1alpha1.Rollout) []ManagedRoute {
	if !inCanary(rollout) {
		return nil
	}
	strategy := rollout.Spec.Strategy.Canary
	current := 0 // a pointer to 0 arrives as nil
	if index := rollout.Status.CurrentStepIndex; index != nil {
		current = int(*index)
	}
	if rollout.Spec.RollbackWindow != nil && current >= len(strategy.Steps) {
		return nil
	}
	var set []ManagedRoute
	for _, step := range strategy.Steps[:min(current+1, len(strategy.Steps))] {
		route, sets, names := managedRoute(step)
		if !names {
			continue
		}
		set = slices.DeleteFunc(set, func(r ManagedRoute) bool { return r.Name == route.Name })
		if sets {
			set = append(set, route)
		}
	}
	rank := func(route ManagedRoute) int {
		at := slices.IndexFunc(strategy.TrafficRouting.ManagedRoutes, func(m v1alpha1.MangedRoutes) bool { return m.Name == route.Name })
		if at < 0 {
			return len(strategy.TrafficRouting.ManagedRoutes)
		}
		return at
	}
	slices.SortStableFunc(set, func(a, b ManagedRoute) int { return rank(a) - rank(b) })
	return set
}

// managedRoute is the route that a step names, if any, and whether it sets it, rather than removes it.
func managedRoute(step v1alpha1.CanaryStep) (route ManagedRoute, sets, names bool) {
	switch header, mirror := step.SetHeaderRoute, step.SetMirrorRoute; {
	case header != nil:
		return ManagedRoute{Name: header.Name, Header: header}, len(header.Match) > 0, true
	case mirror != nil:
		return ManagedRoute{Name: mirror.Name, Mirror: mirror}, len(mirror.Match) > 0, true
	default:
		return ManagedRoute{}, false, false
	}
}

// inCanary says whether rollout goes through the steps of a canary: it has two versions, and is neither aborted nor on its way past the steps.
func inCanary(rollout *v1alpha1.Rollout) bool {
	strategy, status := rollout.Spec.Strategy.Canary, rollout.Status
	if strategy == nil || strategy.TrafficRouting == nil || status.Abort || status.PromoteFull {
		return false
	}
	revision, err := strconv.Atoi(rollout.Annotations[revisionAnnotation])
	return err == nil && revision > 1 && status.StableRS != "" && status.StableRS != status.CurrentPodHash
}

// removalAge is how long a removal counts as one of the reconcile that is under way. One reconcile makes up to three calls between RemoveManagedRoutes and
// VerifyWeight, which take some milliseconds each unless the API server is in trouble.
const removalAge = 20 * time.Second

// Removals remembers for which Rollouts RemoveManagedRoutes was called earlier in the reconcile that is under way. SetWeight, which follows, then leaves the managed
// routes alone: the controller had a reason to remove them that cannot be read from the Rollout, such as a canary without available Pods.
type Removals struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// NewRemovals returns Removals without any.
func NewRemovals() *Removals { return &Removals{last: map[types.UID]time.Time{}} }

// Begin is for RemoveManagedRoutes.
func (r *Removals) Begin(rollout *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for uid, at := range r.last {
		if now.Sub(at) > removalAge {
			delete(r.last, uid)
		}
	}
	r.last[rollout.UID] = now
}

// Underway says whether the managed routes of rollout were removed in this reconcile.
func (r *Removals) Underway(rollout *v1alpha1.Rollout) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, removed := r.last[rollout.UID]
	return removed && time.Since(at) <= removalAge
}

// End is for VerifyWeight, the last call of a reconcile.
func (r *Removals) End(rollout *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, rollout.UID)
}
