package xds

import resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

// kind is a resource type that is served. The order of the constants is the order in which
// responses leave.
type kind uint8

const (
	clusterKind kind = iota
	endpointKind
	listenerKind
	scopeKind
	secretKind
	kindCount = iota
)

// traits are what kinds differ in.
type traits struct {
	// typeURL is the name on the wire, label the one in logs and metrics.
	typeURL, label string
	// wildcard says that a proxy asks for all resources without naming them. In state of the world
	// every response of the kind is then the list of all resources.
	wildcard bool
	// inFlight is how many responses may wait for their answer. Then the stream is left alone until
	// it answers; what changes meanwhile goes out with the next one. Envoy holds back the ACK of a
	// cluster while it warms it, so 1 would let one cluster hold up all others. Of routes a second
	// one would only wait in Envoy in place of here, where a newer version still takes its place.
	inFlight int
	// apart says that after the first response of a stream each response carries one change: what
	// else is in a refused response is then not touched by it.
	apart bool
	// alike says that resources of the kind mostly differ in names: what they share is kept once.
	alike bool
	// ignoresRepeats says that Envoy ACKs a resource which it saw in a refused response, and does
	// nothing, if the same bytes come again. It has to be sent in other bytes.
	ignoresRepeats bool
}

// traits returns the traits of the kind.
func (k kind) traits() traits {
	return [kindCount]traits{
		clusterKind:  {typeURL: resourcev3.ClusterType, label: "cluster", wildcard: true, inFlight: 8, alike: true},
		endpointKind: {typeURL: resourcev3.EndpointType, label: "endpoint", inFlight: 8},
		listenerKind: {typeURL: resourcev3.ListenerType, label: "listener", wildcard: true, inFlight: 8},
		scopeKind: {
			typeURL: resourcev3.ScopedRouteType, label: "scope", wildcard: true, inFlight: 1,
			apart: true, alike: true, ignoresRepeats: true,
		},
		secretKind: {typeURL: resourcev3.SecretType, label: "secret", inFlight: 8, apart: true},
	}[k]
}

// kindOf returns the kind that a type URL names, and false for a type that is not served.
func kindOf(typeURL string) (kind, bool) {
	for k := range kind(kindCount) {
		if k.traits().typeURL == typeURL {
			return k, true
		}
	}
	return 0, false
}

// typeURL is the kind's name on the wire.
func (k kind) typeURL() string { return k.traits().typeURL }

// String is the kind's name in logs and metric labels.
func (k kind) String() string { return k.traits().label }

// Mode is the form of the protocol that a stream speaks, by its name in logs and metric labels.
type Mode string

const (
	// ModeDelta is the incremental form (DELTA_GRPC in a bootstrap): only what changed travels.
	ModeDelta Mode = "delta"
	// ModeStateOfTheWorld is the older form (GRPC in a bootstrap): every response of a kind that has
	// a wildcard holds all resources.
	ModeStateOfTheWorld Mode = "sotw"
)
