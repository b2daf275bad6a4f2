package session

import resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

// Kind is a resource type that is served. Responses of one step are sent in the order of the constants.
type Kind uint8

// The kinds of resources.
const (
	ClusterKind Kind = iota
	EndpointKind
	ListenerKind
	ScopeKind
	SecretKind
	// KindCount is the number of kinds.
	KindCount = iota
)

// traits are how kinds differ.
type traits struct {
	// typeURL is the name on the wire, label the one in logs and metrics.
	typeURL, label string
	// wildcard means that a proxy subscribes to all resources without naming them. In state of the world every response
	// of the kind is then the list of all resources.
	wildcard bool
	// maxPending is how many responses may be unanswered. At that number nothing more is sent, and later changes are
	// merged into the next response. Envoy delays the ACK of a cluster while it warms it, so a limit of 1 would let one
	// cluster delay all others. A second response with scopes would only wait in Envoy; here a newer version replaces
	// a withheld one.
	maxPending int
	// oneByOne means that after the first response of a stream each response contains one change, so that a NACK
	// affects no other resource.
	oneByOne bool
	// compressed means that resources of the kind mostly differ in names: what they have in common is stored once.
	compressed bool
	// ignoresRepeated means that Envoy ACKs and ignores a resource if the same bytes were in a rejected response. It
	// must be sent in other bytes.
	ignoresRepeated bool
}

// traits returns the traits of the kind.
func (k Kind) traits() traits {
	return [KindCount]traits{
		ClusterKind: {
			typeURL: resourcev3.ClusterType, label: "cluster", wildcard: true, maxPending: 8, compressed: true,
		},
		EndpointKind: {typeURL: resourcev3.EndpointType, label: "endpoint", maxPending: 8},
		ListenerKind: {typeURL: resourcev3.ListenerType, label: "listener", wildcard: true, maxPending: 8},
		ScopeKind: {
			typeURL: resourcev3.ScopedRouteType, label: "scope", wildcard: true, maxPending: 1,
			oneByOne: true, compressed: true, ignoresRepeated: true,
		},
		SecretKind: {typeURL: resourcev3.SecretType, label: "secret", maxPending: 8, oneByOne: true},
	}[k]
}

// KindOf returns the kind of a type URL, and false for a type that is not served.
func KindOf(typeURL string) (Kind, bool) {
	for k := range Kind(KindCount) {
		if k.traits().typeURL == typeURL {
			return k, true
		}
	}
	return 0, false
}

// TypeURL returns the kind's name on the wire.
func (k Kind) TypeURL() string { return k.traits().typeURL }

// String returns the kind's name in logs and metric labels.
func (k Kind) String() string { return k.traits().label }

// Mode is the mode of the protocol on a stream. Its value is used in logs and metric labels.
type Mode string

const (
	// ModeDelta is the incremental mode (DELTA_GRPC in a bootstrap): a response contains only what changed.
	ModeDelta Mode = "delta"
	// ModeStateOfTheWorld is the older mode (GRPC in a bootstrap): every response of a kind with a wildcard contains
	// all resources.
	ModeStateOfTheWorld Mode = "sotw"
)
