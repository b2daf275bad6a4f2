package route

import (
	"errors"

	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
)

// Annotation is the annotation with the record of a route: a JSON object from "namespace/name" of each active Rollout
// to its entry, with what the Rollout owns. It does not exist while no Rollout is active.
const Annotation = "rollouts.kedify.io/gatewayapi"

// The errors of Apply and CheckSpec. Each returned error wraps one of these; its text adds the field, the values and
// the fix.
var (
	// ErrMalformed means that a field of the route does not have the type that the Gateway API specifies.
	ErrMalformed = errors.New("not a Gateway API route")
	// ErrNoRule means that no rule in scope has both the stable and the canary Service as backends.
	ErrNoRule = errors.New("no rule has both Services")
	// ErrAmbiguous means that a rule has the same Service twice, so that it is unclear which weight to set.
	ErrAmbiguous = errors.New("a rule lists a Service twice")
	// ErrOwned means that another Rollout sets the weights of the same Services. errors.As with *OwnedError returns the
	// Rollout.
	ErrOwned = errors.New("another Rollout sets the weights of these Services")
	// ErrClash means that a user's rule has the name or the header match that a managed route needs, that a user's backend
	// is a destination, or that a user's rule has sessions.
	ErrClash = errors.New("conflict with something that this Rollout does not own")
	// ErrLimit means that the route would exceed a limit of the Gateway API: see the Max constants.
	ErrLimit = errors.New("exceeds a limit of the Gateway API")
	// ErrUnsupported means that this kind of route, or the schema in the cluster, cannot express the Intent.
	ErrUnsupported = errors.New("not supported by this route")
	// ErrInvalid means that the Intent itself is invalid: a weight out of range, an empty header name, a percentage above
	// 100.
	ErrInvalid = errors.New("invalid request")
	// ErrDiffers means that the route's spec does not match the Intent. Only CheckSpec returns it.
	ErrDiffers = errors.New("the route differs from what the router wrote")
)

// OwnedError is an ErrOwned that contains the owner.
type OwnedError struct {
	// Rollout is "namespace/name" of the owner.
	Rollout string
	// UID is the UID of the owner when it wrote its entry.
	UID string
	// Services are the names of the Services that both Rollouts use.
	Services []string
}

// DefaultLabelKey is the default key of the in-progress label, which a route has while a Rollout is active on it. Argo
// CD configurations refer to it.
const DefaultLabelKey = "rollouts.argoproj.io/gatewayapi-canary"

// Destination is a Service that an experiment adds to the stable and the canary one.
type Destination struct {
	// Service is its name, in the Rollout's namespace.
	Service string
	// Weight is its weight, from 0 to the Rollout's maximum.
	Weight int32
	// Ports are the Service's ports; nil if they are unknown. Its backendRef then has the canary's port.
	Ports []serviceport.Port
}

// Weights is a traffic split. The weights add up to the Rollout's maxTrafficWeight, 100 by default.
type Weights struct {
	// Stable is the weight of the stable Service: the rest.
	Stable int32
	// Canary is the weight of the canary Service.
	Canary int32
	// Others are the Services of an experiment, in the order of the call.
	Others []Destination
	// CanaryPorts are the ports of the canary Service; nil if they are unknown. They are used for Others only.
	CanaryPorts []serviceport.Port
}

// IsStableOnly reports whether all requests go to the stable Service, as outside of a canary.
func (w Weights) IsStableOnly() bool {
	for _, other := range w.Others {
		if other.Weight != 0 {
			return false
		}
	}
	return w.Canary == 0
}

// MatchType is how a value is compared.
type MatchType string

// The match types of an Argo Rollouts StringMatch.
const (
	// Exact matches the whole value.
	Exact MatchType = "Exact"
	// Prefix matches the beginning of the value: characters of a header, whole segments of a path.
	Prefix MatchType = "Prefix"
	// Regex is a regular expression in the dialect of the Gateway's implementation (RE2 for those with Envoy).
	Regex MatchType = "Regex"
)

// StringMatch is a condition on a value.
type StringMatch struct {
	// Type is how the value is compared.
	Type MatchType
	// Value is the value to compare with, not empty.
	Value string
}

// HeaderMatch is a condition on a request header.
type HeaderMatch struct {
	// Name is the header's name, case-insensitive.
	Name string
	// Type is how the header's value is compared.
	Type MatchType
	// Value is the value to compare with, not empty.
	Value string
}

// MirrorMatch is a condition on a request. All of its parts must match; nil or empty parts always match.
type MirrorMatch struct {
	// Method is a condition on the HTTP method. The Gateway API supports only Exact.
	Method *StringMatch
	// Path is a condition on the path. In a GRPCRoute it is "/service/method" (Exact), or "/service" or "/" (Prefix).
	Path *StringMatch
	// Headers are conditions on headers, in the order of the route.
	Headers []HeaderMatch
}

// Mirror is the configuration of a mirror route.
type Mirror struct {
	// Matches select the requests to mirror: those that at least one of them matches.
	Matches []MirrorMatch
	// Percent is the percentage of these requests that is mirrored, 0 to 100.
	Percent int32
}

// ManagedRoute is a header or a mirror route of a Rollout. It has one managed rule for each rule in scope that has both
// Services.
type ManagedRoute struct {
	// Name is the route's name in trafficRouting.managedRoutes.
	Name string
	// Header are the conditions of a header route, all of which must match in addition to those of the rule. It is ignored
	// if Mirror is set.
	Header []HeaderMatch
	// Mirror makes this a mirror route.
	Mirror *Mirror
}

// Label is the label of a route while a Rollout is active on it.
type Label struct {
	// Key is the label's key.
	Key string
	// Value is the label's value.
	Value string
}

// Intent is the desired state of a route for a Rollout. Nil fields leave the route as it is.
type Intent struct {
	// Kind is the kind of the route.
	Kind Kind
	// Rollout is "namespace/name" of the Rollout, the key of its entry in the record.
	Rollout string
	// UID is the Rollout's UID. An entry of the same Rollout with another UID is that of its predecessor, which the
	// Rollout takes over.
	UID string
	// Namespace is the namespace of the Rollout and of its Services.
	Namespace string
	// Stable is the name of the stable Service.
	Stable string
	// Canary is the name of the canary Service.
	Canary string
	// RuleName limits the scope to the rule of that name (spec.rules[].name). If it is empty, every rule that has both
	// Services is in scope.
	RuleName string
	// Weights is the traffic split; nil leaves the weights and the destinations of an experiment as they are.
	Weights *Weights
	// Sessions are the sessions of clients while Weights split requests; the zero value removes those of the Rollout. It
	// is ignored if Weights is nil.
	Sessions Sessions
	// SessionsError means that the configuration of the sessions is invalid. It is an error for weights that raise that of
	// the canary or an experiment. Other weights are written, and the sessions stay as they are.
	SessionsError error
	// KeepsSessions is true in an abort or a rollback. Until the canary has no weight, the sessions of the Rollout stay on
	// the rules that have them, and none are added, whatever Sessions and SessionsError are.
	KeepsSessions bool
	// ManagedRoutes is the full set of managed routes by precedence; nil leaves the existing ones, and an empty set
	// removes them.
	ManagedRoutes *[]ManagedRoute
	// Label is the in-progress label; nil leaves labels as they are.
	Label *Label
	// HasRuleNames is true if the schema in the cluster has spec.rules[].name, by which managed rules are recognized. If
	// the field is pruned, they are recognized by a hash of their content. (The standard channel has the field since
	// Gateway API v1.4.)
	HasRuleNames bool
	// HasMirrorPercent is true if the schema in the cluster has spec.rules[].filters[].requestMirror.percent. If the field
	// is pruned, all requests would be mirrored, so a percentage below 100 is an error.
	HasMirrorPercent bool
	// HasSessions is false if the schema in the cluster is known to have no spec.rules[].sessionPersistence. The field
	// would be pruned, so Sessions are an error for weights that rise. (Only the experimental channel of the Gateway API
	// has the field.)
	HasSessions bool
	// GoneOwners are Rollouts ("namespace/name") that do not exist any more or do not reference this route: their entries
	// do not count as owners, and what they own on the route is removed.
	GoneOwners []string
}

// Report is a summary of what Apply did.
type Report struct {
	// Changed is true if the route differs from the original. Otherwise there is nothing to write.
	Changed bool
	// SessionError is why the rules do not have the Intent's sessions; nil if they have them, or if it has none. The
	// weights are written nevertheless, because they do not rise. It is one of Warnings.
	SessionError error
	// Active is true if the Rollout is active on the route: its canary or an experiment has weight, or it has a managed
	// rule.
	Active bool
	// Warnings are Events about an Apply that succeeded, e.g. about a managed rule that a user has edited and that was
	// therefore not changed.
	Warnings []reasons.Warning
}
