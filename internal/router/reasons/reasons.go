// Package reasons has the reasons of the Warning Events that the routers emit on Rollouts: one reason for each cause.
// docs/reference/events.md has a row for each, which a test generates from the comments here, and
// docs/reference/findings.md one with the fix.
package reasons

import "errors"

// Warning is the content of a Warning Event.
type Warning struct {
	// Reason is one of the constants of this package, and Message the text, which names the field and the fix.
	Reason, Message string
}

// Reasons of weights.
const (
	// DataPlaneNotVerified means that the full weight of the canary counts as verified without a proxy that has
	// acknowledged it, because no proxy was Ready for a minute.
	DataPlaneNotVerified = "DataPlaneNotVerified"
	// RouteNotReported means that a Gateway of the route has never reported on it, so that its weights count unverified.
	RouteNotReported = "RouteNotReported"
	// WeightNotVerified means that a weight has not been verified for a minute.
	WeightNotVerified = "WeightNotVerified"
	// WeightLimited means that the canary's weight is limited to the share that its ready Pods can carry.
	WeightLimited = "WeightLimited"
	// WeightNotLimited means that the canary's weight is not limited, because Endpoints may not be read.
	WeightNotLimited = "WeightNotLimited"
)

// Reasons of promotions and aborts.
const (
	// PromotionWaits means that the stable Service has not had the promoted Pods for 10 seconds.
	PromotionWaits = "PromotionWaits"
	// PromotionNotSafe means that a promotion continues although the stable Service does not have the promoted Pods.
	PromotionNotSafe = "PromotionNotSafe"
	// PromotionNotChecked means that a promotion does not wait for the stable Service, because Endpoints may not be read.
	PromotionNotChecked = "PromotionNotChecked"
	// PromotionWithoutOldPods means that a promotion may not wait, because dynamicStableScale has scaled down the old Pods.
	PromotionWithoutOldPods = "PromotionWithoutOldPods"
	// AbortNotImmediate means that the canary keeps its weight until all stable Pods are available, because Endpoints may
	// not be read.
	AbortNotImmediate = "AbortNotImmediate"
)

// Reasons of calls that set or remove header and mirror routes. Argo Rollouts emits no Event for their errors.
const (
	// InvalidTrafficRouting means that the router's configuration, a step or the route of the Rollout is invalid.
	InvalidTrafficRouting = "InvalidTrafficRouting"
	// OwnedByOtherRollout means that another Rollout sets the weights of the object, or of the Services on the route.
	OwnedByOtherRollout = "OwnedByOtherRollout"
	// PermissionMissing means that the controller's ServiceAccount may not read or write the object.
	PermissionMissing = "PermissionMissing"
	// TargetNotFound means that the HTTPScaledObject, the InterceptorRoute or the route in the router's configuration does
	// not exist.
	TargetNotFound = "TargetNotFound"
)

// Reasons of objects that were written in part.
const (
	// StickinessNotApplied means that the weights are written without the stickiness of the Rollout.
	StickinessNotApplied = "StickinessNotApplied"
	// OtherTriggersNotListed means that the objects of other triggers cannot be listed, and are no part of the canary.
	OtherTriggersNotListed = "OtherTriggersNotListed"
	// SessionsNotRemoved means that a rule may have sessions of the canary that the router no longer recognizes.
	SessionsNotRemoved = "SessionsNotRemoved"
	// InvalidRouteRecord means that the router's annotation on the route is unreadable, so its rules are not changed.
	InvalidRouteRecord = "InvalidRouteRecord"
	// ManagedRuleEdited means that someone has edited or deleted the rule of a header or mirror route.
	ManagedRuleEdited = "ManagedRuleEdited"
	// ManagedRouteUnmatched means that no request can match a header or mirror route.
	ManagedRouteUnmatched = "ManagedRouteUnmatched"
)

// Of returns the reason of an error that has one, see New, and otherwise the fallback.
func Of(err error, fallback string) string {
	var named interface{ EventReason() string }
	if errors.As(err, &named) {
		return named.EventReason()
	}
	return fallback
}

// New returns an error with a reason for Of.
func New(reason, text string) error { return &namedError{reason, text} }

// namedError is an error of a reason.
type namedError struct{ reason, text string }

// Error implements error.
func (e *namedError) Error() string { return e.text }

// EventReason returns the reason.
func (e *namedError) EventReason() string { return e.reason }
