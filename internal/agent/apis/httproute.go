package apis

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HTTPRoute says which requests that come by a Gateway go to which Services.
//
// +kubebuilder:object:root=true
type HTTPRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec HTTPRouteSpec `json:"spec"`
}

// HTTPRouteList is a list of HTTPRoutes.
//
// +kubebuilder:object:root=true
type HTTPRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects in no particular order.
	Items []HTTPRoute `json:"items"`
}

// HTTPRouteSpec is the desired state of an HTTPRoute.
type HTTPRouteSpec struct {
	// Hostnames are the hosts that it is for. None means all that its Gateways' listeners have.
	Hostnames []string `json:"hostnames,omitempty"`
	// Rules say where requests go.
	Rules []HTTPRouteRule `json:"rules,omitempty"`
}

// HTTPRouteRule says where some requests go.
type HTTPRouteRule struct {
	// Matches say which, as JSON: a list of HTTPRouteMatch. It is kept whole, because it is what tells two
	// rules apart.
	Matches json.RawMessage `json:"matches,omitempty"`
	// Filters change requests before they are shared between BackendRefs.
	Filters []HTTPRouteFilter `json:"filters,omitempty"`
	// BackendRefs are where the requests go.
	BackendRefs []HTTPBackendRef `json:"backendRefs,omitempty"`
}

// HTTPRouteMatch is a condition that requests fulfil.
type HTTPRouteMatch struct {
	// Path is the condition on the path. None means every path.
	Path *HTTPPathMatch `json:"path,omitempty"`
}

// HTTPPathMatch is a condition on a path.
type HTTPPathMatch struct {
	// Type is Exact, PathPrefix, RegularExpression, or empty for PathPrefix.
	Type string `json:"type,omitempty"`
	// Value is the path, or empty for /.
	Value string `json:"value,omitempty"`
}

// HTTPRouteFilter changes requests.
type HTTPRouteFilter struct {
	// URLRewrite gives them another host or path; nil where the filter does something else.
	URLRewrite *HTTPURLRewrite `json:"urlRewrite,omitempty"`
}

// HTTPURLRewrite gives requests another host or path.
type HTTPURLRewrite struct {
	// Hostname is the other host, or empty.
	Hostname string `json:"hostname,omitempty"`
	// Path is what becomes of the path, or nil.
	Path *HTTPPathModifier `json:"path,omitempty"`
}

// HTTPPathModifier changes a path. One of its fields is set.
type HTTPPathModifier struct {
	// ReplaceFullPath stands for the whole path.
	ReplaceFullPath *string `json:"replaceFullPath,omitempty"`
	// ReplacePrefixMatch stands for the prefix that the rule has matched.
	ReplacePrefixMatch *string `json:"replacePrefixMatch,omitempty"`
}

// HTTPBackendRef names where requests go: a Service, unless Group or Kind say otherwise.
type HTTPBackendRef struct {
	// Group and Kind are the type's. Absent ones mean the core group and Service.
	Group *string `json:"group,omitempty"`
	Kind  *string `json:"kind,omitempty"`
	// Name is the object's.
	Name string `json:"name"`
	// Namespace is the object's. An absent one means the route's.
	Namespace *string `json:"namespace,omitempty"`
	// Port is the Service's, or 0. It has 64 bits for the reason that MinReplicaCount has them.
	Port int64 `json:"port,omitempty"`
	// Filters change the requests that go there.
	Filters []HTTPRouteFilter `json:"filters,omitempty"`
}

// HTTPRouteKind is the kind of the Gateway API's object, in the version that the agent reads. The Gateway API has
// it since 1.0.
func HTTPRouteKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
}
