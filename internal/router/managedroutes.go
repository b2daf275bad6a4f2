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

// revisionAnnotation contains the revision number of a Rollout, from 1 (argo-rollouts utils/annotations,
// RevisionAnnotation).
const revisionAnnotation = "rollout.argoproj.io/revision"

// ManagedRoutes returns the full set of header and mirror routes of rollout, in the order of
// trafficRouting.managedRoutes, followed by the routes that are not listed there.
//
// The controller calls SetHeaderRoute and SetMirrorRoute only while their step is the current one, but
// RemoveManagedRoutes whenever the canary has no available Pod. A canary that loses its Pods for a moment would lose
// its routes permanently. So the set is computed from the Rollout alone: of the steps up to the current one, the last
// that names a route wins, and a step without matches removes the route.
//
// Outside of a canary the set is empty, whatever the steps: after a promotion the current step index is the number of
// steps, after an abort it is 0. A Rollout with a rollbackWindow has an empty set after the last step too: a rollback
// within the window goes there directly and skips all steps.
func ManagedRoutes(rollout *v1alpha1.Rollout) []managedroute.Route {
	if !inCanary(rollout) {
		return nil
	}
	strategy, current := rollout.Spec.Strategy.Canary, currentStep(rollout)
	if rollout.Spec.RollbackWindow != nil && current >= len(strategy.Steps) {
		return nil
	}
	var set []managedroute.Route
	for _, step := range strategy.Steps[:min(current+1, len(strategy.Steps))] {
		route, ok := managedRoute(step)
		if !ok {
			continue
		}
		set = slices.DeleteFunc(set, func(r managedroute.Route) bool { return r.Name == route.Name })
		if len(route.Matches) > 0 {
			set = append(set, route)
		}
	}
	rank := func(route managedroute.Route) int {
		at := slices.IndexFunc(strategy.TrafficRouting.ManagedRoutes,
			func(m v1alpha1.MangedRoutes) bool { return m.Name == route.Name })
		if at < 0 {
			return len(strategy.TrafficRouting.ManagedRoutes)
		}
		return at
	}
	slices.SortStableFunc(set, func(a, b managedroute.Route) int { return rank(a) - rank(b) })
	return set
}

// HasManagedRouteSteps reports whether a step of rollout sets or removes a header or mirror route.
func HasManagedRouteSteps(rollout *v1alpha1.Rollout) bool {
	strategy := rollout.Spec.Strategy.Canary
	return strategy != nil && slices.ContainsFunc(strategy.Steps, func(step v1alpha1.CanaryStep) bool {
		return step.SetHeaderRoute != nil || step.SetMirrorRoute != nil
	})
}

// managedRoute returns the route that a step sets or removes; ok is false for other steps. A route to be removed has no
// matches.
func managedRoute(step v1alpha1.CanaryStep) (route managedroute.Route, ok bool) {
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

// headerMatches converts the matches of a header route.
func headerMatches(from []v1alpha1.HeaderRoutingMatch) []managedroute.HeaderMatch {
	var matches []managedroute.HeaderMatch
	for _, match := range from {
		matches = append(matches, managedroute.HeaderMatch{
			Name:        match.HeaderName,
			StringMatch: stringMatch(match.HeaderValue),
		})
	}
	return matches
}

// mirrorRoute converts a mirror route. A missing percentage is 100. So is 0, which gob turns into a missing one and
// which would mirror nothing.
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

// stringMatch converts a condition; nil becomes the zero value. Of several conditions, exact wins over prefix and
// prefix over regex.
func stringMatch(from *v1alpha1.StringMatch) managedroute.StringMatch {
	switch {
	case from == nil:
		return managedroute.StringMatch{}
	case from.Exact != "":
		return managedroute.StringMatch{Type: managedroute.Exact, Value: from.Exact}
	case from.Prefix != "":
		return managedroute.StringMatch{Type: managedroute.Prefix, Value: from.Prefix}
	case from.Regex != "":
		return managedroute.StringMatch{Type: managedroute.Regex, Value: from.Regex}
	default:
		return managedroute.StringMatch{}
	}
}

// inCanary reports whether rollout executes the steps of a canary: it has two versions, and is neither aborted nor
// fully promoted.
func inCanary(rollout *v1alpha1.Rollout) bool {
	strategy, status := rollout.Spec.Strategy.Canary, rollout.Status
	if strategy == nil || strategy.TrafficRouting == nil || status.Abort || status.PromoteFull {
		return false
	}
	revision, err := strconv.Atoi(rollout.Annotations[revisionAnnotation])
	return err == nil && revision > 1 && status.StableRS != "" && status.StableRS != status.CurrentPodHash
}

// removalTTL is how long a removal counts as part of the current reconcile. A reconcile makes up to three calls between
// RemoveManagedRoutes and VerifyWeight, which take some milliseconds each unless the API server is in trouble.
const removalTTL = 20 * time.Second

// RemovalTracker records the Rollouts whose managed routes were removed in the current reconcile. The following
// SetWeight must not set them again: the controller removed them for a reason that the Rollout does not show, such as a
// canary without available Pods.
type RemovalTracker struct {
	mu        sync.Mutex
	removedAt map[types.UID]time.Time
}

// NewRemovalTracker returns an empty RemovalTracker.
func NewRemovalTracker() *RemovalTracker {
	return &RemovalTracker{removedAt: map[types.UID]time.Time{}}
}

// Record records a RemoveManagedRoutes call.
func (r *RemovalTracker) Record(rollout *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for uid, at := range r.removedAt {
		if now.Sub(at) > removalTTL {
			delete(r.removedAt, uid)
		}
	}
	r.removedAt[rollout.UID] = now
}

// IsRemoved reports whether the managed routes of rollout were removed in the current reconcile.
func (r *RemovalTracker) IsRemoved(rollout *v1alpha1.Rollout) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.removedAt[rollout.UID]
	return ok && time.Since(at) <= removalTTL
}

// Clear forgets a removal. VerifyWeight, the last call of a reconcile, calls it.
func (r *RemovalTracker) Clear(rollout *v1alpha1.Rollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.removedAt, rollout.UID)
}
