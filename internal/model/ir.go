// Package model is the model: what fleets of Envoy proxies serve, free of both Kubernetes and Envoy. Read it first.
//
// Kubernetes objects become the model in package resolve, the model becomes Envoy's resources in package translate:
//
//	HTTPScaledObjects, Services, EndpointSlices ── resolve.Build ──▶ Config ── translate.Envoy ──▶ listener, routes, clusters, endpoints
//
// A [Fleet] is the proxies that serve the same objects. Each object is served by one fleet, and each fleet is served its own objects and nothing else: two
// objects of two fleets may ask for the same host, and each gets it.
//
// A Config keeps two things apart. Routes is what is desired: which requests belong to whom, and how a canary shares them. Services is what is there:
// the endpoints that can answer right now. They change at different speeds and for different reasons, and only [EffectiveWeights] brings them together.
//
// Everything here is a value. Equal inputs give equal Configs, in equal order.
package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// Key is the identity of a Kubernetes object among those of its kind.
type Key struct {
	// Namespace and Name are as in the object's metadata.
	Namespace, Name string
}

// String returns namespace/name, the notation that names of clusters and messages use.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name))
}

// MarshalText writes a Key as String does. It never fails.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ServicePort is one port of a Kubernetes Service.
type ServicePort struct {
	// Service is the Service.
	Service Key
	// Port is the port's number in the Service, 1 to 65535. It is 0 when the Service or its port is not there, and then nothing ever answers.
	Port uint32
}

// String returns namespace/name:port.
func (p ServicePort) String() string {
	return p.Service.String() + ":" + strconv.FormatUint(uint64(p.Port), 10)
}

// MarshalText writes a ServicePort as String does, so that it can be the key of a map in YAML. It never fails.
func (p ServicePort) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Config is all that is served, by one fleet or by all: see ByFleet. Equal inputs give equal Configs.
type Config struct {
	// Routes is the desired routing, in the order of CompareRoutes. No two Routes of one Fleet have the same Match.
	Routes []Route
	// Services is what is there now. It has an entry for every one of Route.Destinations of every Route, and no other.
	Services map[ServicePort]Endpoints
	// Certificates is what hosts of one fleet prove with who they are. Those without one take no TLS. It is empty in the Config of several fleets.
	Certificates map[Host]*Certificate `json:",omitempty"`
}

// Route sends the requests of one Match to the backends of one HTTPScaledObject. An HTTPScaledObject with several hosts and path prefixes has a Route for
// each pair of them; those Routes differ in nothing else.
type Route struct {
	// Owner is the HTTPScaledObject that the Route comes from.
	Owner Key
	// UID tells Owner from an object that had its name before, be it within the same second.
	UID string `json:",omitempty"`
	// Fleet is the fleet that serves Owner.
	Fleet Fleet
	// Created is when Owner was created. Between Routes that are equally specific, the older wins.
	Created time.Time
	// Match says which requests are meant.
	Match Match
	// Backends share the requests by weight. The first one is the stable Service; the others are canaries and experiments. There is exactly one element
	// when no canary runs, and never none. No Service is named twice, and at least one weight is above zero.
	Backends []Backend
	// Managed are the header and mirror routes of a canary, in order, which is then the second of Backends: see EffectiveManaged.
	Managed []managedroute.Route `json:",omitempty"`
	// Failover is who answers a request that has waited too long for a first endpoint; nil for nobody.
	Failover *Failover `json:",omitempty"`
	// Timeouts bound a request.
	Timeouts Timeouts `json:",omitzero"`
	// Tuning are settings of Envoy that somebody has changed; nil for none. Nobody may change what it points to.
	Tuning *Tuning `json:",omitempty"`
	// MinReplicas is the lowest number of replicas of the workload. With 0 there may be none, and requests wait for the first one: see Held.
	MinReplicas uint32 `json:",omitempty"`
	// Secret is the name of the Secret, in the namespace of Owner, that has a certificate for the host, as the object has it; "" for none.
	Secret string `json:",omitempty"`
}

// Backend is one Service with the weight that is desired for it.
type Backend struct {
	// Service is the Service, always in the namespace of the Route's owner.
	Service Key
	// Port is the number of the Service's port; see ServicePort.
	Port uint32
	// Weight is the share of the requests in parts of the sum of all weights of the Route. The sum fits in 32 bits. 0 means no request, ever.
	Weight uint32
	// Protocol is what the Service's endpoints speak.
	Protocol Protocol
}

// ServicePort returns the key of the backend's endpoints in Config.Services.
func (b Backend) ServicePort() ServicePort { return ServicePort{Service: b.Service, Port: b.Port} }

// Protocol is a protocol that endpoints speak. The zero value is not one.
type Protocol string

const (
	// HTTP1 is HTTP/1.1 in clear text.
	HTTP1 Protocol = "HTTP/1.1"
	// HTTP2 is HTTP/2 in clear text with prior knowledge (h2c), which gRPC needs.
	HTTP2 Protocol = "HTTP/2"
	// HTTPS is HTTP/1.1 over TLS.
	HTTPS Protocol = "HTTPS"
)

// Timeouts bound one request. A zero field leaves the proxy's default in force.
type Timeouts struct {
	// ResponseHeader is the longest time from the end of the request to the headers of the response. It does not bound the length of a response: streams
	// may go on.
	ResponseHeader time.Duration `json:",omitempty"`
	// ColdStart is the longest time that a request waits for a first endpoint.
	ColdStart time.Duration `json:",omitempty"`
}

// Endpoints are the addresses behind one ServicePort that take part in routing, each slice sorted and without duplicates. No address is in both.
type Endpoints struct {
	// Ready endpoints take requests.
	Ready []netip.AddrPort `json:",omitempty"`
	// Draining endpoints are about to go away but still answer: they keep the requests and connections they have and get no new ones.
	Draining []netip.AddrPort `json:",omitempty"`
	// IsMissing says that the Service, or its port, is not there: nothing can become ready.
	IsMissing bool `json:",omitempty"`
}

// Problem is a user's mistake in one HTTPScaledObject. It goes to the object's status and Events and stops no other object.
type Problem struct {
	// On is the HTTPScaledObject.
	On Key
	// Reason is the machine-readable kind of the mistake: one of the reasons of condition Accepted in package api/http/v1alpha1.
	Reason string
	// Message tells the user which field is wrong, why, and what to do.
	Message string
}

// Compare orders Problems by object, then reason, then message.
func (p Problem) Compare(other Problem) int {
	return cmp.Or(p.On.Compare(other.On), cmp.Compare(p.Reason, other.Reason), cmp.Compare(p.Message, other.Message))
}

// CompareRoutes is the order of Config.Routes: the most specific Match first (see Match.Compare), then the oldest, then by Owner. A proxy that takes the
// first Route which fits a request, within the Routes of the most specific host that fits, does what the order means.
func CompareRoutes(a, b Route) int {
	return cmp.Or(
		a.Match.compareSpecificity(b.Match),
		a.Created.Compare(b.Created),
		a.Owner.Compare(b.Owner),
		a.Match.Compare(b.Match),
	)
}

// Equal says whether two Routes are the same in every part.
func (r Route) Equal(other Route) bool {
	return r.Owner == other.Owner && r.UID == other.UID && r.Fleet == other.Fleet && r.Created.Equal(other.Created) && r.Match.Compare(other.Match) == 0 &&
		r.SharesDestinations(other) && slices.EqualFunc(r.Managed, other.Managed, managedroute.Route.Equal) && r.Timeouts == other.Timeouts && r.MinReplicas == other.MinReplicas &&
		r.Secret == other.Secret && r.Tuning.Equal(other.Tuning)
}

// Equal says whether both are the same in every part.
func (e Endpoints) Equal(other Endpoints) bool {
	return slices.Equal(e.Ready, other.Ready) && slices.Equal(e.Draining, other.Draining) && e.IsMissing == other.IsMissing
}
