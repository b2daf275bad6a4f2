package route

import (
	"errors"

	"github.com/kedify/argo-rollouts-plugin/internal/model/serviceport"
)

// Annotation is the key of the annotation that records what the Rollouts active on a route own there. It is a JSON object from "namespace/name" of a Rollout
// to its entry, and absent while no Rollout is active.
const Annotation = "rollouts.kedify.io/gatewayapi"

// What can stand against an Intent. Every error of Apply and Holds is one of these by errors.Is; its text adds the field, the values and the remedy.
var (
	// ErrMalformed says that a field of the route has not the shape that the Gateway API gives it.
	ErrMalformed = errors.New("not a Gateway API route")
	// ErrNoRule says that no rule in scope has both the stable and the canary Service as backends.
	ErrNoRule = errors.New("no rule has both Services")
	// ErrAmbiguous says that a rule has the same Service twice, so that the weight of one cannot be told from the other's.
	ErrAmbiguous = errors.New("a Service is a backend of one rule twice")
	// ErrOwned says that another Rollout shares requests between the same Services. errors.As with *OwnedError tells which.
	ErrOwned = errors.New("another Rollout shares requests between these Services")
	// ErrClash says that a name or a header match that a managed route needs is taken by a user's rule, or a destination by a user's backend.
	ErrClash = errors.New("taken by something that is not this Rollout's")
	// ErrLimit says that the route would exceed a limit of the Gateway API: see the Max constants.
	ErrLimit = errors.New("above a limit of the Gateway API")
	// ErrUnsupported says that this kind of route, or the schema that the cluster serves, has no way to say what the Intent asks for.
	ErrUnsupported = errors.New("not possible with this route")
	// ErrInvalid says that the Intent itself makes no sense: a weight out of range, an empty header name, a percentage above 100.
	ErrInvalid = errors.New("not a valid request")
	// ErrDiffers says that the route's spec is not as the Intent asks. Only Holds returns it.
	ErrDiffers = errors.New("the route is not as asked")
)

// OwnedError is the ErrOwned that names the owner.
type OwnedError struct {
	// Rollout is "namespace/name" of the owner.
	Rollout string
	// UID is the UID of the owner at the time that it wrote its entry.
	UID string
	// Services are the names of the Services that both Rollouts want.
	Services []string
}

// DefaultLabelKey is the key of the label that a route carries while a Rollout is active on it, unless the Rollout says otherwise. Argo CD configurations look for
// it.
const DefaultLabelKey = "rollouts.argoproj.io/gatewayapi-canary"

// Destination is a Service that an experiment adds beside the stable and the canary one.
type Destination struct {
	// Service is its name, in the Rollout's namespace.
	Service string
	// Weight is its share, from 0 to the Rollout's maximum.
	Weight int32
	// Ports are the Service's; nil where they are not known. Its backendRef then has the canary's port.
	Ports []serviceport.Port
}

// Weights is how requests are shared. The weights add up to the Rollout's maxTrafficWeight, 100 by default.
type Weights struct {
	// Stable is the share of the stable Service: what the others leave.
	Stable int32
	// Canary is the share of the canary Service.
	Canary int32
	// Others are the shares of an experiment's Services, in the order of the call.
	Others []Destination
	// CanaryPorts are the ports of the canary Service; nil where they are not known. They count for Others only.
	CanaryPorts []serviceport.Port
}

// Idle says whether everything goes to the stable Service, as outside of a canary.
func (w Weights) Idle() bool {
	for _, other := range w.Others {
		if other.Weight != 0 {
			return false
		}
	}
	return w.Canary == 0
}

// MatchType is how a value is compared.
type MatchType string

// The ways of comparing of an Argo Rollouts StringMatch.
const (
	// Exact compares the whole value.
	Exact MatchType = "Exact"
	// Prefix compares the beginning of the value: of characters in a header, of whole segments in a path.
	Prefix MatchType = "Prefix"
	// Regex is a regular expression in the dialect of the Gateway's implementation (RE2 for those that run Envoy).
	Regex MatchType = "Regex"
)

// StringMatch is a condition on a value.
type StringMatch struct {
	// Type is how the value is compared.
	Type MatchType
	// Value is what it is compared with, not empty.
	Value string
}

// HeaderMatch is a condition on a request header.
type HeaderMatch struct {
	// Name is the header's name, in any case.
	Name string
	// Type is how its value is compared.
	Type MatchType
	// Value is what it is compared with, not empty.
	Value string
}

// MirrorMatch is a condition on a request. Its parts must all hold; what is nil or empty holds always.
type MirrorMatch struct {
	// Method is a condition on the HTTP method. The Gateway API knows Exact only.
	Method *StringMatch
	// Path is a condition on the path. In a GRPCRoute it is "/service/method" (Exact), or "/service" or "/" (Prefix).
	Path *StringMatch
	// Headers are conditions on headers, in the order in which they are to stand in the route.
	Headers []HeaderMatch
}

// Mirror is what a mirror route copies to the canary.
type Mirror struct {
	// Matches are the requests of which copies are sent: those for which at least one match holds.
	Matches []MirrorMatch
	// Percent is how many of a hundred of them are copied, 0 to 100.
	Percent int32
}

// Managed is a header or a mirror route of a Rollout: one managed rule for each rule in scope that has both Services.
type Managed struct {
	// Name is the route's name under trafficRouting.managedRoutes.
	Name string
	// Header are the conditions of a header route, all of which must hold beside those of the rule. It is ignored when Mirror is set.
	Header []HeaderMatch
	// Mirror makes this a mirror route.
	Mirror *Mirror
}

// Label is the label that a route carries while a Rollout is active on it.
type Label struct {
	// Key is the label's key.
	Key string
	// Value is the label's value.
	Value string
}

// Intent is what a Rollout asks of a route. What is nil in it stays as it is in the route.
type Intent struct {
	// Kind is the kind of the route.
	Kind Kind
	// Rollout is "namespace/name" of the Rollout: the key of what it owns on the route.
	Rollout string
	// UID is the Rollout's UID. An entry of the same Rollout with another UID is its predecessor's and taken over.
	UID string
	// Namespace is the namespace of the Rollout and so of its Services.
	Namespace string
	// Stable is the name of the stable Service.
	Stable string
	// Canary is the name of the canary Service.
	Canary string
	// RuleName limits everything to the rule of that name (spec.rules[].name). Empty means every rule that has both Services.
	RuleName string
	// Weights is how requests are shared; nil leaves the weights and an experiment's destinations as they are.
	Weights *Weights
	// Managed is the full set of managed routes in order of precedence; nil leaves those there are, and a set without elements removes them all.
	Managed *[]Managed
	// Label is the in-progress label; nil means that labels are left alone.
	Label *Label
	// NamedRules says that the served schema keeps spec.rules[].name, by which managed rules are then recognised. Where it is pruned they are recognised
	// by the hash of what was written. (The field is in the standard channel from Gateway API v1.4 on.)
	NamedRules bool
	// MirrorPercent says that the served schema keeps spec.rules[].filters[].requestMirror.percent. Where it is pruned every request would be mirrored, so
	// a percentage below 100 is then refused.
	MirrorPercent bool
	// Gone are Rollouts ("namespace/name") that are known not to exist any more, or not to name this route: their entries don't count as an owner's and
	// what they own on the route is undone.
	Gone []string
}

// Report says what Apply did.
type Report struct {
	// Changed says whether the route differs from the one given. If not, there is nothing to write.
	Changed bool
	// Active says whether the Rollout is active on the route: its canary or an experiment has weight, or it has a managed rule.
	Active bool
	// Warnings tell what the user should know though the work is done, such as a managed rule that somebody edited and that was therefore left alone.
	Warnings []string
}
