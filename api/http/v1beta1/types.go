package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InterceptorRoute defines which HTTP requests belong to a workload, which Service receives them, and the metrics by
// which the workload scales.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TargetService",type="string",JSONPath=".spec.target.service"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type InterceptorRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired state.
	// +required
	Spec InterceptorRouteSpec `json:"spec,omitzero"`
	// Status is the state that the interceptor reports.
	// +optional
	Status InterceptorRouteStatus `json:"status,omitzero"`
}

// InterceptorRouteList is a list of InterceptorRoutes.
//
// +kubebuilder:object:root=true
type InterceptorRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the objects, in no particular order.
	Items []InterceptorRoute `json:"items"`
}

// InterceptorRouteSpec is the desired state of an InterceptorRoute.
type InterceptorRouteSpec struct {
	// Target references the Service that receives the requests; for a canary Rollout, its stable Service.
	Target TargetRef `json:"target"`
	// ColdStart defines what requests receive while the target has no ready endpoints.
	// +optional
	ColdStart *ColdStartSpec `json:"coldStart,omitempty"`
	// Timeouts are limits for the requests of this object.
	// +optional
	Timeouts InterceptorRouteTimeouts `json:"timeouts,omitzero"`
	// Rules select the requests of the object. A request must match at least one of them.
	// +optional
	// +listType=atomic
	Rules []RoutingRule `json:"rules,omitempty"`
	// ScalingMetric selects the metrics by which the target scales.
	ScalingMetric ScalingMetricSpec `json:"scalingMetric"`
	// StaticRoutes answer some requests of the object with a static response. These requests do not count for scaling.
	// The first matching one is used.
	// +optional
	// +listType=atomic
	StaticRoutes []StaticRoute `json:"staticRoutes,omitempty"`

	// Unreadable lists the fields that failed to decode, with the errors. It is empty for a valid spec. It is not part
	// of the API: UnmarshalJSON sets it.
	Unreadable string `json:"-"`
}

// RoutingRule selects requests by host, path and headers. A field that is not set matches every request.
type RoutingRule struct {
	// Hosts are host names: exact names, "*.example.com" for every name below example.com, or "*" for all. The most
	// specific host of all objects that matches a request decides.
	// +optional
	// +listType=set
	Hosts []string `json:"hosts,omitempty"`
	// Paths are prefixes of the path. The longest one that matches a request decides.
	// +optional
	// +listType=atomic
	Paths []PathMatch `json:"paths,omitempty"`
	// Headers must all be part of the request.
	// +optional
	// +listType=map
	// +listMapKey=name
	Headers []HeaderMatch `json:"headers,omitempty"`
}

// PathMatch is a condition on the path of a request.
type PathMatch struct {
	// Value is a path prefix. It matches whole segments: "/app" matches "/app" and "/app/x", not "/apple".
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}

// HeaderMatch is a condition on a request header.
type HeaderMatch struct {
	// Name is the header's name, in any letter case.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Value is the exact value of the header. If it is not set, the header only has to be present.
	// +optional
	Value *string `json:"value,omitempty"`
}

// TargetRef references a port of a Service in the namespace of the object.
//
// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
type TargetRef struct {
	// Service is the name of the Service.
	// +kubebuilder:validation:MinLength=1
	Service string `json:"service"`
	// Port is the number of the Service's port. Exactly one of port and portName must be set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName must be set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	PortName string `json:"portName,omitempty"`
}

// ServiceRef references a port of a Service in the namespace of the object.
//
// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
type ServiceRef struct {
	// Name is the name of the Service.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Port is the number of the Service's port. Exactly one of port and portName must be set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName must be set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	PortName string `json:"portName,omitempty"`
}

// ColdStartSpec defines what requests receive while the target has no ready endpoints.
//
// +kubebuilder:validation:XValidation:rule="has(self.fallback) || has(self.placeholder)",message="set 'fallback' or 'placeholder'"
type ColdStartSpec struct {
	// Fallback receives a request if the target does not become ready within timeouts.readiness.
	// +optional
	Fallback *ColdStartFallback `json:"fallback,omitempty"`
	// Placeholder answers requests at once while the target has no ready endpoints.
	// +optional
	Placeholder *ColdStartPlaceholder `json:"placeholder,omitempty"`
}

// ColdStartFallback is the destination of requests for which the target does not become ready in time.
type ColdStartFallback struct {
	// Service is the Service that receives them.
	// +required
	Service *ServiceRef `json:"service,omitempty"`
}

// ColdStartPlaceholder is the answer to requests while the target has no ready endpoints.
type ColdStartPlaceholder struct {
	// Response is the static response.
	// +required
	Response *StaticResponse `json:"response,omitempty"`
}

// StaticResponse is an HTTP response that no application creates. It has an empty body if neither body nor
// bodyFromConfigMap is set.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.body) && has(self.bodyFromConfigMap))",message="set at most one of 'body' and 'bodyFromConfigMap'"
type StaticResponse struct {
	// StatusCode is the status code of the response.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	StatusCode int32 `json:"statusCode,omitempty"`
	// Body is the text of the response.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Body *string `json:"body,omitempty"`
	// BodyFromConfigMap references the text of the response in a ConfigMap with the label
	// "http.keda.sh/response-body: true". Without the ConfigMap or the key, the previous response stays active.
	// +optional
	BodyFromConfigMap *ConfigMapKeyRef `json:"bodyFromConfigMap,omitempty"`
	// Headers are the headers of the response.
	// +optional
	Headers map[string]string `json:"headers,omitempty"`
}

// ConfigMapKeyRef references a key of a ConfigMap in the namespace of the object.
type ConfigMapKeyRef struct {
	// Name is the name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key is the key in the ConfigMap. Required: the path of the request as the key is not supported.
	// +optional
	Key string `json:"key,omitempty"`
}

// InterceptorRouteTimeouts are limits for the requests of one InterceptorRoute. If a duration is missing or negative,
// the default applies.
type InterceptorRouteTimeouts struct {
	// Readiness is how long a request waits for a target without ready endpoints. 0s means as long as possible, and 30s
	// with coldStart.fallback. Default: the interceptor's --cold-start-timeout, and 30s with coldStart.fallback.
	// +optional
	Readiness *metav1.Duration `json:"readiness,omitempty"`
	// Request is the maximum time of a request until the end of its response. 0s means that there is no limit. Default:
	// the Envoy setting route.timeout, otherwise no limit.
	// +optional
	Request *metav1.Duration `json:"request,omitempty"`
	// ResponseHeader is how long the target may take to send the response headers. 0s means that there is no limit.
	// Default: the Envoy setting per_try_timeout, otherwise no limit.
	// +optional
	ResponseHeader *metav1.Duration `json:"responseHeader,omitempty"`
}

// ScalingMetricSpec selects the metrics by which a target scales. With both, the target has the larger of both numbers
// of replicas.
//
// +kubebuilder:validation:XValidation:rule="has(self.concurrency) || has(self.requestRate)",message="set 'concurrency', 'requestRate' or both"
type ScalingMetricSpec struct {
	// Concurrency scales by concurrent requests.
	// +optional
	Concurrency *ConcurrencyTargetSpec `json:"concurrency,omitempty"`
	// RequestRate scales by requests per second.
	// +optional
	RequestRate *RequestRateTargetSpec `json:"requestRate,omitempty"`
}

// ConcurrencyTargetSpec scales by concurrent requests.
type ConcurrencyTargetSpec struct {
	// TargetValue is the number of concurrent requests per replica.
	// +kubebuilder:validation:Minimum=1
	TargetValue int32 `json:"targetValue"`
}

// RequestRateTargetSpec scales by requests per second, averaged over a window.
type RequestRateTargetSpec struct {
	// Granularity is the length of the intervals in which requests are counted, as a Go duration.
	// +kubebuilder:default="1s"
	// +optional
	Granularity metav1.Duration `json:"granularity,omitzero"`
	// TargetValue is the number of requests per second per replica.
	// +kubebuilder:validation:Minimum=1
	TargetValue int32 `json:"targetValue"`
	// Window is the time over which the rate is averaged, as a Go duration.
	// +kubebuilder:default="1m"
	// +optional
	Window metav1.Duration `json:"window,omitzero"`
}

// StaticRoute answers the requests that match one of its rules with a static response.
type StaticRoute struct {
	// Rules select the requests. A request must match at least one of them.
	// +kubebuilder:validation:MinItems=1
	// +listType=atomic
	Rules []RoutingRule `json:"rules"`
	// Response is the static response.
	Response StaticResponse `json:"response"`
	// ResponseMode is when the response is sent: always, or only while the target has no ready endpoints.
	// +optional
	// +kubebuilder:default=WhenUnavailable
	ResponseMode StaticRouteResponseMode `json:"responseMode,omitempty"`
}

// StaticRouteResponseMode is when a static response is sent.
//
// +kubebuilder:validation:Enum=Always;WhenUnavailable
type StaticRouteResponseMode string

const (
	// StaticRouteResponseModeAlways sends the response to every request.
	StaticRouteResponseModeAlways StaticRouteResponseMode = "Always"
	// StaticRouteResponseModeWhenUnavailable sends the response only while the target has no ready endpoints.
	StaticRouteResponseModeWhenUnavailable StaticRouteResponseMode = "WhenUnavailable"
)

// InterceptorRouteStatus is the reported state of an InterceptorRoute. The report of the data plane is in annotation
// http.kedify.io/status, because the schema has no field for it.
type InterceptorRouteStatus struct {
	// Conditions are the latest observations of the object's state, such as Accepted, Ready and Programmed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
