package xds

import resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

// kind is a resource type that is served. The order of the constants is the
// order in which responses leave: clusters, endpoints, listeners, routes.
type kind int

const (
	clusterKind kind = iota
	endpointKind
	listenerKind
	routeKind
	kindCount = iota
)

// kindOf returns the kind that a type URL names, and false for a type that is
// not served.
func kindOf(typeURL string) (kind, bool) {
	switch typeURL {
	case resourcev3.ClusterType:
		return clusterKind, true
	case resourcev3.EndpointType:
		return endpointKind, true
	case resourcev3.ListenerType:
		return listenerKind, true
	case resourcev3.RouteType:
		return routeKind, true
	default:
		return 0, false
	}
}

// typeURL is the kind's name on the wire.
func (k kind) typeURL() string {
	switch k {
	case clusterKind:
		return resourcev3.ClusterType
	case endpointKind:
		return resourcev3.EndpointType
	case listenerKind:
		return resourcev3.ListenerType
	default:
		return resourcev3.RouteType
	}
}

// String is the kind's name in logs and metric labels.
func (k kind) String() string {
	switch k {
	case clusterKind:
		return "cluster"
	case endpointKind:
		return "endpoint"
	case listenerKind:
		return "listener"
	default:
		return "route"
	}
}

// wildcard tells whether a proxy may ask for every resource of the kind without
// naming them. In state of the world these are also the kinds whose responses
// must hold the complete list. The protocol has both for listeners and clusters
// only.
func (k kind) wildcard() bool { return k == clusterKind || k == listenerKind }

// Mode is the form of the protocol that a stream speaks.
type Mode int

const (
	// Delta is the incremental form (DELTA_GRPC in a bootstrap): only what
	// changed travels.
	Delta Mode = iota
	// StateOfTheWorld is the older form (GRPC in a bootstrap): every response of
	// listeners or clusters holds all of them.
	StateOfTheWorld
)

// String is the mode's name in logs and metric labels.
func (m Mode) String() string {
	if m == StateOfTheWorld {
		return "sotw"
	}
	return "delta"
}
