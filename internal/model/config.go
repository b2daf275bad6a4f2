// Package model contains the model of the data plane: what fleets of Envoy proxies serve, independent of Kubernetes and
// Envoy. It is the best place to start reading.
//
// Package resolve converts Kubernetes objects to the model, and package translate converts the model to Envoy
// resources:
//
//	HTTPScaledObjects, Services, EndpointSlices
//	    ── resolve.Build ──▶ Config
//	    ── translate.Envoy ──▶ listener, routes, clusters, endpoints
//
// A [Fleet] is the proxies that serve the same objects. Each object is served by one fleet, and a fleet serves only its
// own objects. Objects of two fleets may use the same host; each fleet serves its own.
//
// A Config keeps two things apart. Routes is the desired routing: which requests belong to which object, and the
// traffic split of a canary. Services is the observed state: the endpoints that are ready now. They change at different
// rates and for different reasons, and only [EffectiveWeights] combines them.
//
// All types are values. Equal inputs give equal Configs, in equal order.
package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// Key identifies a Kubernetes object of a known kind.
type Key struct {
	// Namespace and Name are those of the object's metadata.
	Namespace, Name string
}

// String returns namespace/name, as in cluster names and messages.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name))
}

// MarshalText returns String. It never fails.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ServicePort is one port of a Kubernetes Service.
type ServicePort struct {
	// Service is the Service.
	Service Key
	// Port is the port's number in the Service, 1 to 65535. It is 0 if the Service or its port is missing; then there are
	// no endpoints.
	Port uint32
}

// String returns namespace/name:port.
func (p ServicePort) String() string {
	return p.Service.String() + ":" + strconv.FormatUint(uint64(p.Port), 10)
}

// MarshalText returns String, so that a ServicePort can be a map key in YAML. It never fails.
func (p ServicePort) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Config is everything that one fleet, or all fleets, serve: see ByFleet. Equal inputs give equal Configs.
type Config struct {
	// Routes is the desired routing, in the order of CompareRoutes. No two Routes of one Fleet have the same Match.
	Routes []Route
	// Services is the observed state. It has an entry for each of Route.Destinations of each Route, and no other.
	Services map[ServicePort]Endpoints
	// Certificates are the TLS certificates by host of one fleet. Hosts without one do not accept TLS. It is empty in the
	// Config of several fleets.
	Certificates map[Host]*Certificate `json:",omitempty"`
}

// Route routes the requests of one Match to the backends of one HTTPScaledObject. An HTTPScaledObject with several
// hosts and path prefixes has a Route for each pair of them; these Routes are otherwise equal.
type Route struct {
	// Owner is the HTTPScaledObject that the Route comes from.
	Owner Key
	// UID distinguishes Owner from a deleted object of the same name, even if both were created in the same second.
	UID string `json:",omitempty"`
	// Fleet is the fleet that serves Owner.
	Fleet Fleet
	// Created is the creation time of Owner. Of equally specific Routes, the older wins.
	Created time.Time
	// Match selects the requests.
	Match Match
	// Backends split the requests by weight. The first one is the stable Service; the others are canaries and experiments.
	// Without a canary there is exactly one element; the slice is never empty. Services are unique, and at least one
	// weight is above zero.
	Backends []Backend
	// Managed are the header and mirror routes of a canary, in order. The canary is then the second of Backends: see
	// EffectiveManagedRoutes.
	Managed []managedroute.Route `json:",omitempty"`
	// Stickiness decides which of several Backends receives the requests of a client, so that all go to the same one: see
	// SplitKey. It is the zero value if the object does not request it, and with a single backend.
	Stickiness affinity.Key `json:",omitzero"`
	// Affinity decides which endpoint of a backend receives the requests of a client, so that all go to the same one. With
	// the zero value, each request goes to any endpoint.
	Affinity affinity.Key `json:",omitzero"`
	// Static are parts of the requests with a static response, in order: the first one that matches a request applies.
	Static []StaticRoute `json:",omitempty"`
	// Placeholder is the response to all other requests that wait for a first endpoint, which they wake; nil if they wait.
	Placeholder *StaticResponse `json:",omitempty"`
	// Failover answers requests that have waited too long for a first endpoint; nil for none.
	Failover *Failover `json:",omitempty"`
	// Timeouts are the timeouts of a request.
	Timeouts Timeouts `json:",omitzero"`
	// EnvoySettings are settings of Envoy that differ from the defaults; nil for none. The value is shared and must not be
	// modified.
	//
	// Replicas exchange digests of this JSON: the name Tuning keeps them equal to the digests of earlier builds, which run
	// at the same time during an upgrade.
	EnvoySettings *EnvoySettings `json:"Tuning,omitempty"`
	// MinReplicas is the minimum number of replicas of the workload. At 0, requests may wait for the first replica: see
	// WaitsForEndpoint.
	MinReplicas uint32 `json:",omitempty"`
	// HealthPath is the path of health checks that the proxy answers even if the workload has endpoints; "" for none.
	HealthPath string `json:",omitempty"`
	// Secret is the name of the object's TLS Secret for the host, in the namespace of Owner; "" for none.
	Secret string `json:",omitempty"`
}

// Backend is one Service with its desired weight.
type Backend struct {
	// Service is the Service, always in the namespace of the Route's owner.
	Service Key
	// Port is the number of the Service's port; see ServicePort.
	Port uint32
	// Weight is the weight of the Service relative to the sum of all weights of the Route, which fits in 32 bits. A
	// Service with weight 0 never receives a request.
	Weight uint32
	// Protocol is the protocol of the Service's endpoints.
	Protocol Protocol
}

// ServicePort returns the key of the backend's endpoints in Config.Services.
func (b Backend) ServicePort() ServicePort { return ServicePort{Service: b.Service, Port: b.Port} }

// Protocol is a protocol of endpoints. The zero value is invalid.
type Protocol string

const (
	// HTTP1 is HTTP/1.1 in clear text.
	HTTP1 Protocol = "HTTP/1.1"
	// HTTP2 is HTTP/2 in clear text with prior knowledge (h2c), which gRPC requires.
	HTTP2 Protocol = "HTTP/2"
	// HTTPS is HTTP/1.1 over TLS.
	HTTPS Protocol = "HTTPS"
)

// Timeouts are the timeouts of one request. A field that is not given means the default.
type Timeouts struct {
	// ResponseHeader is the maximum time from the end of the request to the response headers. It does not limit the length
	// of a response, e.g. of a stream.
	ResponseHeader Timeout `json:",omitzero"`
	// ColdStart is the maximum time that a request waits for a first endpoint.
	ColdStart Timeout `json:",omitzero"`
	// Request is the maximum time from the end of the request to the end of the response, with all retries.
	Request Timeout `json:",omitzero"`
	// Idle is how long a request may be idle in both directions. It does not limit the time in the queue.
	Idle Timeout `json:",omitzero"`
}

// Timeout is an optional time limit. A given 0 means that there is no limit.
type Timeout Given[time.Duration]

// TimeoutOf returns a given Timeout.
func TimeoutOf(limit time.Duration) Timeout { return Timeout{Value: limit, IsGiven: true} }

// MarshalJSON returns the number of nanoseconds. Replicas exchange digests of the JSON: as a number, a limit has the
// digest of earlier builds, which run at the same time during an upgrade.
func (t Timeout) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(t.Value), 10), nil
}

// Endpoints are the addresses of one ServicePort that take part in routing. Each slice is sorted and without
// duplicates. No address is in both.
type Endpoints struct {
	// Ready endpoints accept requests.
	Ready []netip.AddrPort `json:",omitempty"`
	// Draining endpoints are terminating but still serve: they finish their requests and connections and receive no new
	// ones.
	Draining []netip.AddrPort `json:",omitempty"`
	// Hints are the hints of the Ready endpoints, by index; nil if the Service has none, or if they express no preference.
	// Either all of them name zones or none does, and the same is true of nodes.
	//
	// They are not part of the JSON, of which replicas exchange digests: the traffic split is the same with any hints.
	Hints []Hint `json:"-"`
	// IsMissing means that the Service or its port does not exist: no endpoint can become ready.
	IsMissing bool `json:",omitempty"`
}

// Hint names the proxies that an endpoint is intended for, as the hints of an EndpointSlice do.
type Hint struct {
	// Zones and Nodes are the names of the zones and of the nodes of these proxies, sorted and separated by commas.
	Zones, Nodes string
}

// Compare orders Hints by their zones, then by their nodes.
func (h Hint) Compare(other Hint) int {
	return cmp.Or(cmp.Compare(h.Zones, other.Zones), cmp.Compare(h.Nodes, other.Nodes))
}

// Problem is a user's error in one HTTPScaledObject, or a warning to its owner. It is reported in the object's status
// and Events and affects no other object.
type Problem struct {
	// On is the HTTPScaledObject.
	On Key
	// Reason is the machine-readable kind of the error: one of the reasons of condition Accepted in package
	// api/http/v1alpha1.
	Reason string
	// Message names the invalid field, the problem and the fix.
	Message string
	// IsWarning means that the object is valid and served regardless.
	IsWarning bool `json:",omitempty"`
}

// Compare orders Problems by object, then reason, then message.
func (p Problem) Compare(other Problem) int {
	return cmp.Or(p.On.Compare(other.On), cmp.Compare(p.Reason, other.Reason), cmp.Compare(p.Message, other.Message))
}

// CompareRoutes is the order of Config.Routes: the most specific Match first (see Match.Compare), then the oldest, then
// by Owner. Within the Routes of the most specific matching host, a proxy must use the first Route that matches a
// request.
func CompareRoutes(a, b Route) int {
	return cmp.Or(
		a.Match.compareSpecificity(b.Match),
		a.Created.Compare(b.Created),
		a.Owner.Compare(b.Owner),
		a.Match.Compare(b.Match),
	)
}

// Equal reports whether all fields are equal.
func (r Route) Equal(other Route) bool {
	return r.Owner == other.Owner && r.UID == other.UID && r.Fleet == other.Fleet && r.Created.Equal(other.Created) &&
		r.Match.Compare(other.Match) == 0 &&
		r.SameDestinations(other) && slices.EqualFunc(r.Managed, other.Managed, managedroute.Route.Equal) &&
		r.Stickiness == other.Stickiness && r.Affinity == other.Affinity &&
		r.Timeouts == other.Timeouts && r.MinReplicas == other.MinReplicas && r.HealthPath == other.HealthPath &&
		r.Secret == other.Secret && r.equalStatic(other) && r.EnvoySettings.Equal(other.EnvoySettings)
}

// Equal reports whether all fields are equal.
func (e Endpoints) Equal(other Endpoints) bool {
	return slices.Equal(e.Ready, other.Ready) && slices.Equal(e.Draining, other.Draining) &&
		slices.Equal(e.Hints, other.Hints) && e.IsMissing == other.IsMissing
}
