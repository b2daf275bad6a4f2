package router

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// revisionAnnotation is where the controller counts the revisions of a Rollout, from 1 on (argo-rollouts utils/annotations, RevisionAnnotation).
const revisionAnnotation = "rollout.argoproj.io/revision"

// ManagedRoutes is the full set of header and mirror routes that rollout should have now, in the order of trafficRouting.managedRoutes, and after those the ones
// that are not named there.
//
// The controller calls SetHeaderRoute and SetMirrorRoute only while their step is the current one, but RemoveManagedRoutes whenever the canary has no available
// Pod: a canary that loses its Pods for a moment would lose its routes for good. So the set follows from the Rollout alone: from the steps up to the
// current one, the last that names a route wins, and one without matches removes it.
//
// Outside of a canary the set is empty, whatever the steps: after a promotion the current step is the one behind the last, and after an abort the first. Behind the
// last step it is empty too for a Rollout with a rollbackWindow: a rollback within it goes there at once, without the steps in between.
func ManagedRoutes(rollout *v1alpha1.Rollout) []managedroute.Route {
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
	var set []managedroute.Route
	for _, step := range strategy.Steps[:min(current+1, len(strategy.Steps))] {
		route, names := managedRoute(step)
		if !names {
			continue
		}
		set = slices.DeleteFunc(set, func(r managedroute.Route) bool { return r.Name == route.Name })
		if len(route.Matches) > 0 {
			set = append(set, route)
		}
	}
	rank := func(route managedroute.Route) int {
		at := slices.IndexFunc(strategy.TrafficRouting.ManagedRoutes, func(m v1alpha1.MangedRoutes) bool { return m.Name == route.Name })
		if at < 0 {
			return len(strategy.TrafficRouting.ManagedRoutes)
		}
		return at
	}
	slices.SortStableFunc(set, func(a, b managedroute.Route) int { return rank(a) - rank(b) })
	return set
}

// NamesManagedRoutes says whether any step of rollout sets or removes a header or mirror route.
func NamesManagedRoutes(rollout *v1alpha1.Rollout) bool {
	strategy := rollout.Spec.Strategy.Canary
	return strategy != nil && slices.ContainsFunc(strategy.Steps, func(step v1alpha1.CanaryStep) bool {
		return step.SetHeaderRoute != nil || step.SetMirrorRoute != nil
	})
}

// managedRoute is the route that a step names, if any. It has no matches where the step removes it.
func managedRoute(step v1alpha1.CanaryStep) (route managedroute.Route, names bool) {
	switch header, mirror := step.SetHeaderRoute, step.SetMirrorRoute; {
	case header != nil:
		route.Name = header.Name
		if len(header.Match) > 0 {
			route.Matches = []managedroute.Match{{Headers: headerMatches(header.Match)}}
		}
		return route, true
	case mirror != nil:
		return mirrorRoute(mirror), true
	default:
		return route, false
	}
}

// headerMatches are the conditions of a header route.
func headerMatches(given []v1alpha1.HeaderRoutingMatch) []managedroute.HeaderMatch {
	var matches []managedroute.HeaderMatch
	for _, match := range given {
		matches = append(matches, managedroute.HeaderMatch{Name: match.HeaderName, StringMatch: stringMatch(match.HeaderValue)})
	}
	return matches
}

// mirrorRoute is the mirror route of a step. A missing percentage is 100; so is one of zero, which travels as a missing one and would make no route.
func mirrorRoute(step *v1alpha1.SetMirrorRoute) managedroute.Route {
	route := managedroute.Route{Name: step.Name, MirrorPercent: managedroute.MaxPercent}
	if step.Percentage != nil && *step.Percentage > 0 {
		route.MirrorPercent = uint32(*step.Percentage)
	}
	for _, match := range step.Match {
		converted := managedroute.Match{Method: stringMatch(match.Method), Path: stringMatch(match.Path)}
		for _, name := range slices.Sorted(maps.Keys(match.Headers)) {
			value := match.Headers[name]
			converted.Headers = append(converted.Headers, managedroute.HeaderMatch{Name: name, StringMatch: stringMatch(&value)})
		}
		route.Matches = append(route.Matches, converted)
	}
	return route
}

// stringMatch is the condition that is given; the zero value where none is. Of several, exact comes before prefix and prefix before regex.
func stringMatch(given *v1alpha1.StringMatch) managedroute.StringMatch {
	switch {
	case given == nil:
		return managedroute.StringMatch{}
	case given.Exact != "":
		return managedroute.StringMatch{Type: managedroute.Exact, Value: given.Exact}
	case given.Prefix != "":
		return managedroute.StringMatch{Type: managedroute.Prefix, Value: given.Prefix}
	case given.Regex != "":
		return managedroute.StringMatch{Type: managedroute.Regex, Value: given.Regex}
	default:
		return managedroute.StringMatch{}
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
