package apis

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Route routes requests of OpenShift's router to Services. Private keys, which its spec may contain, are not decoded.
//
// +kubebuilder:object:root=true
type Route struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec RouteSpec `json:"spec"`
	// Status is the observed state.
	Status RouteStatus `json:"status"`
}

// RouteList is a list of Routes.
//
// +kubebuilder:object:root=true
type RouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []Route `json:"items"`
}

// RouteSpec is the desired state of a Route.
type RouteSpec struct {
	// Host is the host of the requests. If it is empty, each router chooses one, which is in RouteStatus.
	Host string `json:"host,omitempty"`
	// Path is the path prefix of the requests; empty for every path.
	Path string `json:"path,omitempty"`
	// WildcardPolicy is WildcardSubdomain if the first label of Host stands for any label.
	WildcardPolicy string `json:"wildcardPolicy,omitempty"`
	// To is the primary backend, and AlternateBackends are up to three more.
	To                RouteTarget   `json:"to"`
	AlternateBackends []RouteTarget `json:"alternateBackends,omitempty"`
	// Port is a RoutePort as JSON, or empty. A number may exceed 32 bits, because the CRD sets no bound. It would then not
	// decode, for the same reason as MinReplicaCount.
	Port json.RawMessage `json:"port,omitempty"`
	// TLS is the security of the connections, or nil.
	TLS *RouteTLS `json:"tls,omitempty"`
	// HTTPHeaders change headers, or are nil.
	HTTPHeaders *RouteHTTPHeaders `json:"httpHeaders,omitempty"`
}

// RouteTarget is a weighted backend (RouteTargetReference in OpenShift's API). The agent does not need the weight.
type RouteTarget struct {
	// Kind is empty or Service, and Name is the Service's name.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
}

// RoutePort selects the endpoints of all backends.
type RoutePort struct {
	// TargetPort is the name of a Service's port, or the number of a port of the Pods, as JSON.
	TargetPort json.RawMessage `json:"targetPort"`
}

// RouteTLS is the security of connections (TLSConfig in OpenShift's API).
type RouteTLS struct {
	// Termination is TerminationEdge, TerminationPassthrough or TerminationReencrypt.
	Termination string `json:"termination,omitempty"`
}

// RouteHTTPHeaders change headers.
type RouteHTTPHeaders struct {
	// Actions are the changes.
	Actions RouteHTTPHeaderActions `json:"actions"`
}

// RouteHTTPHeaderActions are changes of headers. The agent does not need those of responses.
type RouteHTTPHeaderActions struct {
	// Request are the changes of headers of requests.
	Request []RouteHTTPHeader `json:"request,omitempty"`
}

// RouteHTTPHeader changes a header.
type RouteHTTPHeader struct {
	// Name is the name of the header, in any letter case.
	Name string `json:"name"`
	// Action is the change.
	Action RouteHTTPHeaderAction `json:"action"`
}

// RouteHTTPHeaderAction is a change of a header.
type RouteHTTPHeaderAction struct {
	// Set sets a value; nil deletes the header.
	Set *RouteSetHTTPHeader `json:"set,omitempty"`
}

// RouteSetHTTPHeader sets a header.
type RouteSetHTTPHeader struct {
	// Value is the value. A percent sign begins an expression of HAProxy.
	Value string `json:"value"`
}

// RouteStatus is the observed state of a Route.
type RouteStatus struct {
	// Ingress are the routers that expose the Route.
	Ingress []RouteIngress `json:"ingress,omitempty"`
}

// RouteIngress is a router that exposes a Route.
type RouteIngress struct {
	// Host is the host under which the router exposes it.
	Host string `json:"host,omitempty"`
}

// Values of RouteSpec.WildcardPolicy and RouteTLS.Termination.
const (
	WildcardSubdomain      = "Subdomain"
	TerminationEdge        = "edge"
	TerminationPassthrough = "passthrough"
	TerminationReencrypt   = "reencrypt"
)

// RouteKind returns the kind and version of Routes that the agent reads.
func RouteKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
}
