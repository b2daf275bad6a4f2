package apis

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// VirtualService routes requests of Istio's gateways and sidecars to Services.
//
// +kubebuilder:object:root=true
type VirtualService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec VirtualServiceSpec `json:"spec"`
}

// VirtualServiceList is a list of VirtualServices.
//
// +kubebuilder:object:root=true
type VirtualServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []VirtualService `json:"items"`
}

// VirtualServiceSpec is the desired state of a VirtualService. The agent does not need its routes for TCP and TLS.
type VirtualServiceSpec struct {
	// Hosts are the hosts of the requests. A delegate has none: it receives requests of the VirtualServices that name it.
	Hosts []string `json:"hosts,omitempty"`
	// HTTP map requests to destinations.
	HTTP []VirtualServiceHTTP `json:"http,omitempty"`
}

// VirtualServiceHTTP maps requests to destinations (HTTPRoute in Istio's API).
type VirtualServiceHTTP struct {
	// Match is a list of VirtualServiceMatch as JSON. It is not decoded for the same reason as HTTPRouteRule.Matches.
	Match json.RawMessage `json:"match,omitempty"`
	// Rewrite changes host or path, or is nil.
	Rewrite *VirtualServiceRewrite `json:"rewrite,omitempty"`
	// Headers change headers, or are nil.
	Headers *VirtualServiceHeaders `json:"headers,omitempty"`
	// Route are the weighted destinations. Redirects, direct responses and delegates have none.
	Route []VirtualServiceRoute `json:"route,omitempty"`
}

// VirtualServiceMatch is a condition on requests (HTTPMatchRequest in Istio's API).
type VirtualServiceMatch struct {
	// URI and Authority are the conditions on path and host; nil matches all.
	URI       *StringMatch `json:"uri,omitempty"`
	Authority *StringMatch `json:"authority,omitempty"`
}

// StringMatch is a condition on a text. At most one of its fields is set.
type StringMatch struct {
	// Exact is the text, Prefix its beginning, and Regex a regular expression for all of it.
	Exact  string `json:"exact,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Regex  string `json:"regex,omitempty"`
}

// VirtualServiceRewrite changes host or path (HTTPRewrite in Istio's API).
type VirtualServiceRewrite struct {
	// URI replaces the matched prefix, or the path if the match is no prefix. Authority replaces the host.
	URI       string `json:"uri,omitempty"`
	Authority string `json:"authority,omitempty"`
	// URIRegexRewrite is a RegexRewrite as JSON. The agent only needs whether there is one.
	URIRegexRewrite json.RawMessage `json:"uriRegexRewrite,omitempty"`
}

// VirtualServiceHeaders change headers (Headers in Istio's API). The agent does not need those of responses.
type VirtualServiceHeaders struct {
	// Request changes headers of requests.
	Request VirtualServiceHeaderOperations `json:"request"`
}

// VirtualServiceHeaderOperations change headers (HeaderOperations in Istio's API).
type VirtualServiceHeaderOperations struct {
	// Set and Add are the values of headers that are overwritten and added, by name in any letter case.
	Set map[string]string `json:"set,omitempty"`
	Add map[string]string `json:"add,omitempty"`
}

// VirtualServiceRoute is a weighted destination (HTTPRouteDestination in Istio's API).
type VirtualServiceRoute struct {
	// Destination is the Service.
	Destination VirtualServiceDestination `json:"destination"`
	// Headers change headers of requests to it, or are nil.
	Headers *VirtualServiceHeaders `json:"headers,omitempty"`
}

// VirtualServiceDestination references a Service (Destination in Istio's API).
type VirtualServiceDestination struct {
	// Host is the name of a Service of the VirtualService's namespace, or a full name such as shop.team.svc.cluster.local.
	Host string `json:"host"`
	// Subset names a subset of a DestinationRule, or is empty.
	Subset string `json:"subset,omitempty"`
	// Port is the Service's port; nil for the only one.
	Port *PortSelector `json:"port,omitempty"`
}

// PortSelector references a port.
type PortSelector struct {
	// Number is the port's number. It has 64 bits for the same reason as MinReplicaCount.
	Number int64 `json:"number,omitempty"`
}

// DestinationRule sets how Istio's proxies connect to a Service.
//
// +kubebuilder:object:root=true
type DestinationRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec DestinationRuleSpec `json:"spec"`
}

// DestinationRuleList is a list of DestinationRules.
//
// +kubebuilder:object:root=true
type DestinationRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []DestinationRule `json:"items"`
}

// DestinationRuleSpec is the desired state of a DestinationRule. The agent does not need its subsets: a destination
// with a subset is not wired.
type DestinationRuleSpec struct {
	// Host is the name of a Service as in VirtualServiceDestination, or begins with a wildcard.
	Host string `json:"host"`
	// TrafficPolicy sets how to connect, or is nil.
	TrafficPolicy *TrafficPolicy `json:"trafficPolicy,omitempty"`
}

// TrafficPolicy contains the settings for all ports, and those of single ports, which replace all of the former.
type TrafficPolicy struct {
	TrafficSettings `json:",inline"`

	// PortLevelSettings are the settings of single ports.
	PortLevelSettings []PortTrafficPolicy `json:"portLevelSettings,omitempty"`
}

// PortTrafficPolicy contains the settings of a port.
type PortTrafficPolicy struct {
	TrafficSettings `json:",inline"`

	// Port is the port.
	Port PortSelector `json:"port"`
}

// TrafficSettings are the settings for connections to a Service that the agent reads.
type TrafficSettings struct {
	// LoadBalancer selects an endpoint, or is nil.
	LoadBalancer *LoadBalancerSettings `json:"loadBalancer,omitempty"`
	// ConnectionPool contains the protocol, or is nil.
	ConnectionPool *ConnectionPoolSettings `json:"connectionPool,omitempty"`
	// TLS contains the security, or is nil.
	TLS *ClientTLSSettings `json:"tls,omitempty"`
}

// LoadBalancerSettings select an endpoint.
type LoadBalancerSettings struct {
	// ConsistentHash is the session affinity, or nil.
	ConsistentHash *ConsistentHash `json:"consistentHash,omitempty"`
}

// ConsistentHash is a session affinity by one of its fields.
type ConsistentHash struct {
	// HTTPHeaderName is the name of a header.
	HTTPHeaderName string `json:"httpHeaderName,omitempty"`
	// HTTPCookie is a cookie as JSON. The agent only needs whether there is one.
	HTTPCookie json.RawMessage `json:"httpCookie,omitempty"`
	// UseSourceIP means the client's address.
	UseSourceIP bool `json:"useSourceIp,omitempty"`
	// HTTPQueryParameterName is the name of a query parameter.
	HTTPQueryParameterName string `json:"httpQueryParameterName,omitempty"`
}

// ConnectionPoolSettings contain the protocol.
type ConnectionPoolSettings struct {
	// HTTP are the settings for HTTP, or nil.
	HTTP *HTTPSettings `json:"http,omitempty"`
}

// HTTPSettings are settings for HTTP.
type HTTPSettings struct {
	// H2UpgradePolicy is H2Upgrade for HTTP/2 instead of HTTP/1.1.
	H2UpgradePolicy string `json:"h2UpgradePolicy,omitempty"`
}

// ClientTLSSettings contain the security.
type ClientTLSSettings struct {
	// Mode is DISABLE, TLSSimple, TLSMutual or TLSIstioMutual.
	Mode string `json:"mode,omitempty"`
}

// Values of HTTPSettings.H2UpgradePolicy and ClientTLSSettings.Mode.
const (
	H2Upgrade      = "UPGRADE"
	TLSSimple      = "SIMPLE"
	TLSMutual      = "MUTUAL"
	TLSIstioMutual = "ISTIO_MUTUAL"
)

// VirtualServiceKind returns the kind and version of VirtualServices that the agent reads. Istio serves it in all
// releases since 1.5, with the same schema as v1, which it has since 1.22.
func VirtualServiceKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"}
}

// DestinationRuleKind returns the kind and version of DestinationRules that the agent reads. See VirtualServiceKind.
func DestinationRuleKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "DestinationRule"}
}
