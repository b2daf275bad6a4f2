package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPScaledObject defines which HTTP requests belong to a workload, which Service receives them, and the metric
// and bounds by which the workload scales.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=httpso,categories={keda,http-canary}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TargetWorkload",type="string",JSONPath=".status.targetWorkload"
// +kubebuilder:printcolumn:name="TargetService",type="string",JSONPath=".status.targetService"
// +kubebuilder:printcolumn:name="MinReplicas",type="integer",JSONPath=".spec.replicas.min"
// +kubebuilder:printcolumn:name="MaxReplicas",type="integer",JSONPath=".spec.replicas.max"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Active",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Canary",type="string",JSONPath=".status.canary"
// +kubebuilder:printcolumn:name="Proxies",type="integer",JSONPath=".status.dataPlane.proxies.ready"
// +kubebuilder:printcolumn:name="Hosts",type="string",JSONPath=".spec.hosts"
// +kubebuilder:printcolumn:name="Acked",type="integer",priority=1,JSONPath=".status.dataPlane.proxies.acked"
// +kubebuilder:printcolumn:name="Programmed",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Programmed\")].status"
type HTTPScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec HTTPScaledObjectSpec `json:"spec,omitempty"`
	// Status is the state that the interceptor and the agent report.
	Status HTTPScaledObjectStatus `json:"status,omitempty"`
}

// HTTPScaledObjectList is a list of HTTPScaledObjects.
//
// +kubebuilder:object:root=true
type HTTPScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []HTTPScaledObject `json:"items"`
}

// HTTPScaledObjectSpec is the desired state of an HTTPScaledObject.
type HTTPScaledObjectSpec struct {
	// Hosts are the host names of the requests: exact names, "*.example.com" for every name below example.com, or
	// "*" for all. Ports and letter case are ignored. Without hosts, an object has all hosts; in the shared fleet it
	// must have at least one.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=260
	Hosts []string `json:"hosts,omitempty"`
	// PathPrefixes limit the requests to paths. A prefix matches whole segments: "/app" matches "/app" and
	// "/app/x", not "/apple". If it is empty, every path matches.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1025
	PathPrefixes []string `json:"pathPrefixes,omitempty"`
	// Headers limit the requests to those with all of these headers. An object with matching headers takes
	// precedence over one without headers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []Header `json:"headers,omitempty"`
	// ScaleTargetRef references the workload to scale and the Service that receives the requests.
	// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`
	// ColdStartTimeoutFailoverRef references the Service that receives a request if the target does not become
	// ready in time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
	ColdStartTimeoutFailoverRef *ColdStartTimeoutFailoverRef `json:"coldStartTimeoutFailoverRef,omitempty"`
	// Replicas bounds the replicas of the target.
	// +optional
	Replicas *ReplicaRange `json:"replicas,omitempty"`
	// TargetPendingRequests is the number of concurrent requests per replica. Deprecated: use
	// scalingMetric.concurrency.targetValue.
	// +optional
	TargetPendingRequests *int32 `json:"targetPendingRequests,omitempty"`
	// ScaledownPeriod is the time in seconds without requests after which the target scales to zero. Default: 300.
	// Only the KEDA HTTP add-on uses it; otherwise set cooldownPeriod of the ScaledObject.
	// +optional
	ScaledownPeriod *int32 `json:"scaledownPeriod,omitempty"`
	// InitialCooldownPeriod is the time in seconds after creation during which the target does not scale to zero.
	// Default: 0. Only the KEDA HTTP add-on uses it; otherwise set initialCooldownPeriod of the ScaledObject.
	// +optional
	InitialCooldownPeriod *int32 `json:"initialCooldownPeriod,omitempty"`
	// ScalingMetric is the metric by which the target scales. Default: concurrency.
	// +optional
	ScalingMetric *ScalingMetric `json:"scalingMetric,omitempty"`
	// Timeouts are limits for the requests of this object.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	// Converted is set if the object was converted from an InterceptorRoute. It is not part of the API.
	Converted *ConvertedSpec `json:"-"`
	// Unreadable lists the fields that failed to decode, with the errors. It is empty for a valid spec. It is not
	// part of the API: UnmarshalJSON sets it.
	Unreadable string `json:"-"`
	// OmittedBytes is the memory that the object takes if the interceptor has omitted its spec to save it, and 0
	// otherwise. It is not part of the API.
	OmittedBytes int `json:"-"`
	// HasScaledObject is true if a ScaledObject owns the object: the agent made it, with values of the ScaledObject. It is
	// not part of the API: the interceptor sets it.
	HasScaledObject bool `json:"-"`
	// OmittedHosts is the number of hosts of an omitted spec. It is not part of the API.
	OmittedHosts int `json:"-"`
}

// Header is a condition on a request header.
//
// +kubebuilder:validation:XValidation:rule="[has(self.value), has(self.valueWildcard), has(self.valueRegex)].filter(isSet, isSet).size() < 2",message="set at most one of 'value', 'valueWildcard' and 'valueRegex'"
type Header struct {
	// Name is the header's name, in any letter case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// Value is the exact value of the header. Without value, valueWildcard and valueRegex, the header only has to be
	// present.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Value *string `json:"value,omitempty"`
	// ValueWildcard is a pattern for the whole value of the header, in any letter case: "*" matches any characters, "?"
	// one character.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ValueWildcard *string `json:"valueWildcard,omitempty"`
	// ValueRegex is a regular expression (RE2) for the whole value of the header, in any letter case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ValueRegex *string `json:"valueRegex,omitempty"`
}

// ScaleTargetRef references a workload and its Service, both in the namespace of the HTTPScaledObject.
type ScaleTargetRef struct {
	// Name is the name of the workload.
	// +optional
	Name string `json:"name,omitempty"`
	// APIVersion is the group and version of the workload, such as apps/v1 or argoproj.io/v1alpha1.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the kind of the workload, such as Deployment or Rollout.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Service is the name of the Service that receives the requests; for a canary Rollout, its stable Service.
	Service string `json:"service"`
	// Port is the number of the Service's port. Exactly one of port and portName must be set.
	// +optional
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName must be set.
	// +optional
	PortName string `json:"portName,omitempty"`
}

// ColdStartTimeoutFailoverRef references the Service that receives a request if the target does not start in time.
type ColdStartTimeoutFailoverRef struct {
	// Service is the name of the Service.
	Service string `json:"service"`
	// Port is the number of the Service's port. Exactly one of port and portName must be set.
	// +optional
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName must be set.
	// +optional
	PortName string `json:"portName,omitempty"`
	// TimeoutSeconds is how long a request waits for the target, in seconds. 0 means as long as without a failover: see
	// timeouts.conditionWait.
	// +kubebuilder:default=30
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// ReplicaRange bounds a number of replicas.
type ReplicaRange struct {
	// Min is the minimum number of replicas. Default: 0.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// Max is the maximum number of replicas. Default: 100. Only the KEDA HTTP add-on uses it; otherwise set
	// maxReplicaCount of the ScaledObject.
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// ScalingMetric selects the metric by which a workload scales. Set at most one of its fields.
type ScalingMetric struct {
	// Concurrency scales by concurrent requests.
	// +optional
	Concurrency *ConcurrencyMetric `json:"concurrency,omitempty"`
	// RequestRate scales by requests per second.
	// +optional
	RequestRate *RequestRateMetric `json:"requestRate,omitempty"`
}

// ConcurrencyMetric scales by concurrent requests.
type ConcurrencyMetric struct {
	// TargetValue is the number of concurrent requests per replica.
	// +kubebuilder:default=100
	// +optional
	TargetValue int `json:"targetValue,omitempty"`
}

// RequestRateMetric scales by requests per second, averaged over a window.
type RequestRateMetric struct {
	// TargetValue is the number of requests per second per replica.
	// +kubebuilder:default=100
	// +optional
	TargetValue int `json:"targetValue,omitempty"`
	// Window is the time over which the rate is averaged, as a Go duration.
	// +kubebuilder:default="1m"
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
	// Granularity is the length of the intervals in which requests are counted, as a Go duration.
	// +kubebuilder:default="1s"
	// +optional
	Granularity *metav1.Duration `json:"granularity,omitempty"`
}

// Timeouts are limits for the requests of one HTTPScaledObject. If a duration is missing or negative, the default
// applies.
type Timeouts struct {
	// ConditionWait is how long a request waits for a target without ready endpoints, at most 55 minutes. 0s means as
	// long as possible. Default: the interceptor's --cold-start-timeout.
	// +optional
	ConditionWait *metav1.Duration `json:"conditionWait,omitempty"`
	// ResponseHeader is how long the target may take to send the response headers. 0s means that there is no limit.
	// Default: the Envoy setting per_try_timeout, otherwise no limit.
	// +optional
	ResponseHeader *metav1.Duration `json:"responseHeader,omitempty"`
}

// HTTPScaledObjectStatus is the reported state of an HTTPScaledObject.
type HTTPScaledObjectStatus struct {
	// TargetWorkload is the workload as apiVersion/Kind/name, such as argoproj.io/v1alpha1/Rollout/shop.
	// +optional
	TargetWorkload string `json:"targetWorkload,omitempty"`
	// TargetService is the Service and its port as service:port, such as shop-stable:80.
	// +optional
	TargetService string `json:"targetService,omitempty"`
	// Canary is the published percentage of the requests that the canary receives, such as 20%. It is empty without a
	// canary.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Canary string `json:"canary,omitempty"`
	// Conditions are the latest observations of the object's state, such as Accepted, Ready and Programmed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// DataPlane is the state of the object in the proxies. It is kept up to date only while the interceptors' Lease is
	// being renewed (DefaultInterceptorLease).
	// +optional
	DataPlane *DataPlaneStatus `json:"dataPlane,omitempty"`
}

// DataPlaneStatus is the state of an HTTPScaledObject in the proxies that serve it. metadata.generation does not
// count changes of annotations, so the report identifies the annotation by its hash. One elected interceptor
// writes the report for all interceptors, and only when it changes. Its age therefore does not matter; the
// interceptors' Lease shows whether it is current.
type DataPlaneStatus struct {
	// AnnotationHash is the hash of annotation http.kedify.io/weighted-backends that this report is about: SHA-256
	// of its exact text, as 64 lower-case hexadecimal digits, or empty if the object does not have the annotation.
	// If the object also has annotation http.kedify.io/managed-routes or http.kedify.io/stickiness, the hash
	// includes their texts, each after a zero byte. Package internal/model/split computes it.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{64})?$`
	AnnotationHash string `json:"annotationHash"`
	// Proxies counts the proxies that serve the object.
	Proxies ProxyCounts `json:"proxies"`
	// StableHashes are the pod-template-hashes (label rollouts-pod-template-hash) of the ready Pods behind the
	// stable Service, without duplicates, in ascending order. Pods without that label are ignored.
	// +optional
	// +listType=set
	StableHashes []string `json:"stableHashes,omitempty"`
	// Effective is true if every Ready proxy splits traffic exactly as the annotations of AnnotationHash specify:
	// they are accepted, all Ready proxies have acknowledged them, and no weight or header route is redirected
	// because its Service has no ready endpoints. It is false without Ready proxies.
	Effective bool `json:"effective"`
	// WeightedBackends is the active traffic split, in the format of annotation http.kedify.io/weighted-backends.
	// It is empty if spec.scaleTargetRef.service receives all requests. While the annotation is invalid, this is
	// the last valid split, and an interceptor that starts then continues with it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	WeightedBackends string `json:"weightedBackends,omitempty"`
	// ManagedRoutes are the active header and mirror routes, in the format of annotation
	// http.kedify.io/managed-routes. It is empty if there are none. It is retained like WeightedBackends, and
	// together with it.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	ManagedRoutes string `json:"managedRoutes,omitempty"`
	// Stickiness is the active stickiness, in the format of annotation http.kedify.io/stickiness. It is empty without
	// stickiness, and for a single backend. While the annotation is invalid, it contains the last valid value, which an
	// interceptor uses when it starts.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Stickiness string `json:"stickiness,omitempty"`
	// SessionAffinity is the active session affinity, in the format of annotation http.kedify.io/session-affinity. It is
	// empty without session affinity, and is also set if the Service has sessionAffinity ClientIP. While the annotation
	// is invalid, it contains the last valid value, like Stickiness.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SessionAffinity string `json:"sessionAffinity,omitempty"`
	// AutowireSettings is the text of annotation http.kedify.io/autowire-settings if the published configuration follows
	// it. The proxies in Acked have acknowledged this configuration. It is empty without the annotation, and if the
	// object or the annotation is invalid.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	AutowireSettings string `json:"autowireSettings,omitempty"`
	// ReportedBy is the interceptor that wrote this report: the holder of the Lease.
	// +optional
	ReportedBy string `json:"reportedBy,omitempty"`
	// ResourceVersion is the object's metadata.resourceVersion that this report is based on. It is not older than
	// the last write of the annotation or the spec that the interceptor has seen. It thereby distinguishes reports
	// about the same annotation text written at different times. It is empty if the interceptor is too old to
	// report it.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ProxyCounts counts the proxies (Pods) that serve an HTTPScaledObject: those of its namespace, or those of the
// shared fleet.
type ProxyCounts struct {
	// Ready is the number of Ready proxies.
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`
	// Acked is the number of Ready proxies that have acknowledged a configuration with the annotations of
	// AnnotationHash.
	// +kubebuilder:validation:Minimum=0
	Acked int32 `json:"acked"`
}
