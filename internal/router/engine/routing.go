// Package engine contains the control flow that all traffic routers share: read the routing objects (cached if that is
// safe), plan, write the differences and plan again after a conflict, check whether the data plane has applied them,
// and emit a Warning Event if a Rollout is blocked. All rules about when and how the Argo Rollouts controller calls a
// plugin are implemented here and nowhere else. A router adds its configuration and the plan for its kind of object:
// see Routing and Target.
package engine

import (
	"context"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// The configuration keys that every router has.
const (
	// SafePromotionKey decides whether a promotion waits until the stable Service selects the promoted Pods. Default true.
	SafePromotionKey = rollouts.SafePromotionKey
	// ImmediateAbortKey decides whether an abort removes the canary's weight as soon as one stable Pod is ready, instead
	// of all. Default true.
	ImmediateAbortKey = "immediateAbort"
	// LimitWeightKey decides which canary weights are limited to the share that the ready canary Pods can carry: all with
	// true, none with false. Default: those of a Rollout whose steps the controller has skipped.
	LimitWeightKey = "limitWeightToReadyPods"
)

// Settings is the part of a router's configuration in a Rollout that every router has.
type Settings struct {
	// VerifyDataPlane requires the data plane to apply a weight before it counts as verified. Otherwise a written weight
	// is enough.
	VerifyDataPlane bool
	// SafePromotion is the value of SafePromotionKey.
	SafePromotion bool
	// ImmediateAbort is the value of ImmediateAbortKey.
	ImmediateAbort bool
	// WeightLimit is the value of LimitWeightKey.
	WeightLimit router.WeightLimit
}

// WeightLimitOf returns the WeightLimit for a value of LimitWeightKey.
func WeightLimitOf(value bool) router.WeightLimit {
	if value {
		return router.LimitAlways
	}
	return router.LimitNever
}

// DefaultSettings returns the defaults of all keys.
func DefaultSettings() Settings {
	return Settings{VerifyDataPlane: true, SafePromotion: true, ImmediateAbort: true}
}

// Routing is one kind of traffic routing, with objects of type O.
type Routing[O kube.State] struct {
	// Type is the router's name in Rollouts, under trafficRouting.plugins.
	Type string
	// Configure reads the router's configuration in a Rollout, from nothing but the Rollout's namespace and ConfigOf: the
	// result is cached and used concurrently. An error names the invalid field.
	Configure func(rollout *v1alpha1.Rollout) (Configuration[O], error)
}

// Configuration is a Routing as a Rollout configures it.
type Configuration[O kube.State] interface {
	// Common returns the settings that every router has.
	Common() Settings
	// Targets returns the objects that split the Rollout's traffic, each bound to request; none if request is not
	// supported by this routing. With an error it returns the targets that are valid; each error names its object.
	Targets(ctx context.Context, request Request) ([]Target[O], error)
	// OwnedTargets returns the objects that carry the Rollout's owner mark, each bound to request. It reads a cache only
	// and returns none if that is out of date.
	OwnedTargets(request Request) []Target[O]
	// CheckManagedRoutes returns an error that names the step if the Rollout has no object for the header or mirror route
	// that a step sets.
	CheckManagedRoutes(rollout *v1alpha1.Rollout, step string) error
}

// Target is one object, bound to a Request.
type Target[O kube.State] interface {
	// String returns the object's kind and name, for messages.
	String() string
	// Get returns the object from a cache that is up to date, otherwise from the API server; cached is true for the
	// former.
	Get(ctx context.Context) (object O, cached bool, err error)
	// GetLive returns the object from the API server.
	GetLive(ctx context.Context) (O, error)
	// Await waits up to StatusWait until done returns true for a state of the object, and returns the last state.
	Await(ctx context.Context, object O, done func(O) bool) (last O, err error)
	// Plan returns the change that brings the object to the request. It may look up other owners, and writes nothing.
	Plan(ctx context.Context, object O) (Change, error)
	// CheckWritten returns nil if the object's spec or annotations are as requested, otherwise the difference.
	CheckWritten(ctx context.Context, object O) error
	// DataPlaneState returns whether the data plane has applied the object; if not, a reason with numbers and a fix.
	DataPlaneState(ctx context.Context, object O) (state DataPlaneState, reason string)
	// AcceptUnverified reports whether a weight that the data plane has not applied after wait counts as verified
	// nevertheless. The result is the Event for the user.
	AcceptUnverified(object O, wait Wait) (reasons.Warning, bool)
	// HasCanaryTraffic reports whether the Rollout routes requests to a Service other than the stable one.
	HasCanaryTraffic(object O) bool
	// CanaryWeight returns the weight that the canary Service of the Rollout has in the object.
	CanaryWeight(object O) uint32
	// Explain adds the object and a fix to the error of a failed read or write. It returns nil for nil.
	Explain(err error) error
	// IsMissing reports whether err means that the object does not exist, so that there is nothing to reset.
	IsMissing(err error) bool
}

// StablePodsReporter is a Target that has a better source than Endpoints for the Pods of the stable Service.
type StablePodsReporter interface {
	// StableHasHash reports whether the stable Service has only Pods of a pod template hash; known is false if that cannot
	// be determined.
	StableHasHash(ctx context.Context, hash string) (matches, known bool, err error)
	// Changed returns a channel that is closed when the result of StableHasHash may have changed.
	Changed() <-chan struct{}
}

// Change is a planned write of one object.
type Change struct {
	// Write writes the object. It fails with a conflict if the object has changed since the plan. It is nil if nothing is
	// to be written.
	Write func(ctx context.Context) error
	// Attributes are log attributes that describe the write.
	Attributes []any
	// Warnings are Events about a plan that succeeds.
	Warnings []reasons.Warning
}

// DataPlaneState is whether the data plane has applied an object.
type DataPlaneState int

// The DataPlaneStates.
const (
	// Unknown means that no component reports on the object.
	Unknown DataPlaneState = iota
	// Applied means that all of the data plane has applied the object.
	Applied
	// NotApplied means that a part of the data plane has not applied the object.
	NotApplied
)

// Wait is how long a Request has been unfulfilled.
type Wait struct {
	// Elapsed is the time since the first call with the same Request.
	Elapsed time.Duration
	// IsFullCanary is true for the full canary weight: the controller neither scales nor updates status until that is
	// verified.
	IsFullCanary bool
	// IsAtRest is true if no step depends on the result: see Request.IsAtRest. Elapsed is then 0.
	IsAtRest bool
}
