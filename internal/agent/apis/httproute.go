package apis

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HTTPRoute routes requests from Gateways to Services.
//
// +kubebuilder:object:root=true
type HTTPRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec HTTPRouteSpec `json:"spec"`
	// Status is the observed state.
	Status HTTPRouteStatus `json:"status"`
}

// HTTPRouteList is a list of HTTPRoutes.
//
// +kubebuilder:object:root=true
type HTTPRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []HTTPRoute `json:"items"`
}

// HTTPRouteSpec is the desired state of an HTTPRoute.
type HTTPRouteSpec struct {
	// Hostnames are the hosts of the route. An empty list means all hosts of the Gateways' listeners.
	Hostnames []string `json:"hostnames,omitempty"`
	// Rules map requests to backends.
	Rules []HTTPRouteRule `json:"rules,omitempty"`
}

// HTTPRouteStatus is the observed state of an HTTPRoute.
type HTTPRouteStatus struct {
	// Parents are the states of the route in its Gateways.
	Parents []RouteParentStatus `json:"parents,omitempty"`
}

// RouteParentStatus is the state of a route in one Gateway.
type RouteParentStatus struct {
	// ControllerName is the controller that wrote the state, as in the GatewayClass.
	ControllerName string `json:"controllerName"`
}

// HTTPRouteRule maps requests to backends.
type HTTPRouteRule struct {
	// Matches is a list of HTTPRouteMatch as JSON. It is not decoded, because it identifies the rule and the
	// restore patch compares it with the stored value.
	Matches json.RawMessage `json:"matches,omitempty"`
	// Filters modify requests before a backend is selected.
	Filters []HTTPRouteFilter `json:"filters,omitempty"`
	// SessionPersistence is a SessionPersistence (GEP-1619) as JSON. The agent reads only its type.
	SessionPersistence json.RawMessage `json:"sessionPersistence,omitempty"`
	// BackendRefs are the weighted backends.
	BackendRefs []HTTPBackendRef `json:"backendRefs,omitempty"`
}

// HTTPRouteMatch is a condition on requests.
type HTTPRouteMatch struct {
	// Path is the condition on the path; nil matches every path.
	Path *HTTPPathMatch `json:"path,omitempty"`
}

// HTTPPathMatch is a condition on a path.
type HTTPPathMatch struct {
	// Type is Exact, PathPrefix or RegularExpression. It defaults to PathPrefix.
	Type string `json:"type,omitempty"`
	// Value is the path. It defaults to /.
	Value string `json:"value,omitempty"`
}

// HTTPRouteFilter modifies requests.
type HTTPRouteFilter struct {
	// Type is the filter's type, such as URLRewrite.
	Type string `json:"type,omitempty"`
	// URLRewrite changes host or path; nil for filters of other types.
	URLRewrite *HTTPURLRewrite `json:"urlRewrite,omitempty"`
	// RequestHeaderModifier changes headers of requests; nil for filters of other types.
	RequestHeaderModifier *HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// ExtensionRef references an object of the Gateway's implementation; nil for filters of other types.
	ExtensionRef *LocalObjectReference `json:"extensionRef,omitempty"`
}

// HTTPHeaderFilter changes headers. The agent only needs the names of those that it sets.
type HTTPHeaderFilter struct {
	// Set and Add are the headers that are overwritten and added.
	Set []HTTPHeader `json:"set,omitempty"`
	Add []HTTPHeader `json:"add,omitempty"`
}

// HTTPHeader is a header.
type HTTPHeader struct {
	// Name is the header's name, in any letter case.
	Name string `json:"name"`
}

// LocalObjectReference references an object of the same namespace.
type LocalObjectReference struct {
	// Kind and Name identify the object.
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// HTTPURLRewrite changes the host or path of requests.
type HTTPURLRewrite struct {
	// Hostname is the new host, or empty.
	Hostname string `json:"hostname,omitempty"`
	// Path modifies the path, or is nil.
	Path *HTTPPathModifier `json:"path,omitempty"`
}

// HTTPPathModifier changes a path. Exactly one of its fields is set.
type HTTPPathModifier struct {
	// ReplaceFullPath replaces the whole path.
	ReplaceFullPath *string `json:"replaceFullPath,omitempty"`
	// ReplacePrefixMatch replaces the prefix that the rule matched.
	ReplacePrefixMatch *string `json:"replacePrefixMatch,omitempty"`
}

// HTTPBackendRef references a backend: a Service, unless Group or Kind differ.
type HTTPBackendRef struct {
	// Group and Kind are the backend's type. They default to the core group and Service.
	Group *string `json:"group,omitempty"`
	Kind  *string `json:"kind,omitempty"`
	// Name is the backend's name.
	Name string `json:"name"`
	// Namespace is the backend's namespace. It defaults to the route's.
	Namespace *string `json:"namespace,omitempty"`
	// Port is the Service's port, or 0. It has 64 bits for the same reason as MinReplicaCount.
	Port int64 `json:"port,omitempty"`
	// Filters modify the requests to this backend.
	Filters []HTTPRouteFilter `json:"filters,omitempty"`
}

// HTTPRouteKind returns the kind and version of HTTPRoutes that the agent reads. The Gateway API has it since 1.0.
func HTTPRouteKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
}
