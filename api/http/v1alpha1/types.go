package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPScaledObject says which HTTP requests belong to a workload, which Service answers them and how far the workload scales.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=httpso
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TargetWorkload",type="string",JSONPath=".status.targetWorkload"
// +kubebuilder:printcolumn:name="TargetService",type="string",JSONPath=".status.targetService"
// +kubebuilder:printcolumn:name="MinReplicas",type="integer",JSONPath=".spec.replicas.min"
// +kubebuilder:printcolumn:name="MaxReplicas",type="integer",JSONPath=".spec.replicas.max"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Active",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Programmed",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Programmed\")].status"
type HTTPScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec HTTPScaledObjectSpec `json:"spec,omitempty"`
	// Status is what the interceptor has made of it.
	Status HTTPScaledObjectStatus `json:"status,omitempty"`
}

// HTTPScaledObjectList is a list of HTTPScaledObjects, as the API server answers it.
//
// +kubebuilder:object:root=true
type HTTPScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects in no particular order.
	Items []HTTPScaledObject `json:"items"`
}

// HTTPScaledObjectSpec is the desired state of an HTTPScaledObject.
type HTTPScaledObjectSpec struct {
	// Hosts are the host names whose requests belong to the target: exact names, "*.example.com" for every name below example.com, or "*" for all.
	// Ports and letter case do not matter.
	// +optional
	Hosts []string `json:"hosts,omitempty"`
	// PathPrefixes narrow the hosts down to paths. A prefix matches whole segments: "/app" matches "/app" and "/app/x", not "/apple". Without any, every
	// path matches.
	// +optional
	PathPrefixes []string `json:"pathPrefixes,omitempty"`
	// Headers narrow the requests down further: all of them must match. An object whose headers match wins over one without headers.
	// +optional
	// +listType=map
	// +listMapKey=name
	Headers []Header `json:"headers,omitempty"`
	// ScaleTargetRef names the workload that scales and the Service that answers its requests.
	// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`
	// ColdStartTimeoutFailoverRef names the Service that answers when the target does not become ready in time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.portName)",message="set exactly one of 'port' and 'portName'"
	ColdStartTimeoutFailoverRef *ColdStartTimeoutFailoverRef `json:"coldStartTimeoutFailoverRef,omitempty"`
	// Replicas bounds the scaling of the target.
	// +optional
	Replicas *ReplicaRange `json:"replicas,omitempty"`
	// TargetPendingRequests is the number of requests in flight per replica. Deprecated: use scalingMetric.concurrency.targetValue.
	// +optional
	TargetPendingRequests *int32 `json:"targetPendingRequests,omitempty"`
	// ScaledownPeriod is the time in seconds without requests after which the target goes to zero replicas. Default 300.
	// It is for the KEDA HTTP add-on; nothing here reads it: say it in the ScaledObject.
	// +optional
	ScaledownPeriod *int32 `json:"scaledownPeriod,omitempty"`
	// InitialCooldownPeriod is the time in seconds after creation during which the target does not go to zero replicas. Default 0.
	// It is for the KEDA HTTP add-on; nothing here reads it: say it in the ScaledObject.
	// +optional
	InitialCooldownPeriod *int32 `json:"initialCooldownPeriod,omitempty"`
	// ScalingMetric is the measure by which the target scales. Default: concurrency.
	// +optional
	ScalingMetric *ScalingMetric `json:"scalingMetric,omitempty"`
	// Timeouts override the interceptor's own for this object.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	// Unreadable says which fields could not be read, and why; empty in the usual case. It is no part of the API: UnmarshalJSON sets it.
	Unreadable string `json:"-"`
}

// Header is one condition on a request's headers.
type Header struct {
	// Name is the header's name, in any letter case.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Value is what the header must be, exactly. Without it, any value matches and the header only has to be there.
	// +optional
	Value *string `json:"value,omitempty"`
}

// ScaleTargetRef names a workload and its Service, both in the namespace of the HTTPScaledObject.
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
	// Service is the name of the Service that answers the requests; for a canary Rollout, its stable Service.
	Service string `json:"service"`
	// Port is the number of the Service's port. Exactly one of port and portName is set.
	// +optional
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName is set.
	// +optional
	PortName string `json:"portName,omitempty"`
}

// ColdStartTimeoutFailoverRef names the Service that answers in place of a target that is too slow to start.
type ColdStartTimeoutFailoverRef struct {
	// Service is the name of the Service.
	Service string `json:"service"`
	// Port is the number of the Service's port. Exactly one of port and portName is set.
	// +optional
	Port int32 `json:"port,omitempty"`
	// PortName is the name of the Service's port. Exactly one of port and portName is set.
	// +optional
	PortName string `json:"portName,omitempty"`
	// TimeoutSeconds is how long a request waits for the target, in seconds.
	// +kubebuilder:default=30
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ReplicaRange bounds a number of replicas.
type ReplicaRange struct {
	// Min is the lowest number of replicas. Default 0.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// Max is the highest number of replicas. Default 100. It is for the KEDA HTTP add-on; nothing here reads it: say it in the ScaledObject.
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// ScalingMetric chooses the measure by which a workload scales; at most one of its fields is meant to be set.
type ScalingMetric struct {
	// Concurrency scales by requests in flight.
	// +optional
	Concurrency *ConcurrencyMetric `json:"concurrency,omitempty"`
	// RequestRate scales by requests per second.
	// +optional
	RequestRate *RequestRateMetric `json:"requestRate,omitempty"`
}

// ConcurrencyMetric scales by requests in flight.
type ConcurrencyMetric struct {
	// TargetValue is the number of requests in flight per replica.
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
	// Granularity is the length of the slices in which requests are counted, as a Go duration.
	// +kubebuilder:default="1s"
	// +optional
	Granularity *metav1.Duration `json:"granularity,omitempty"`
}

// Timeouts are limits for the requests of one HTTPScaledObject. A missing or zero duration leaves the interceptor's own in force.
type Timeouts struct {
	// ConditionWait is how long a request waits for a target without ready endpoints.
	// +optional
	ConditionWait *metav1.Duration `json:"conditionWait,omitempty"`
	// ResponseHeader is how long the target may take from the request to the response's headers.
	// +optional
	ResponseHeader *metav1.Duration `json:"responseHeader,omitempty"`
}

// HTTPScaledObjectStatus is what the interceptor reports about an HTTPScaledObject.
type HTTPScaledObjectStatus struct {
	// TargetWorkload names the workload as apiVersion/Kind/name, such as argoproj.io/v1alpha1/Rollout/shop.
	// +optional
	TargetWorkload string `json:"targetWorkload,omitempty"`
	// TargetService names the Service and its port as service:port, such as shop-stable:80.
	// +optional
	TargetService string `json:"targetService,omitempty"`
	// Conditions are Accepted, Ready and Programmed, the newest observation of each.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// DataPlane is what the proxies have taken of the object. It means something only while the Lease of the interceptors is renewed
	// (DefaultInterceptorLease).
	// +optional
	DataPlane *DataPlaneStatus `json:"dataPlane,omitempty"`
}

// DataPlaneStatus is what the proxies that serve an HTTPScaledObject have taken of it. Annotations do not count in metadata.generation, so the report names
// the annotation that it is about by its hash. One elected interceptor writes it, for all interceptors together, and only when it changes: its age
// says nothing, the Lease of the interceptors is the sign of life.
type DataPlaneStatus struct {
	// AnnotationHash is the hash of the text of the annotation http.kedify.io/weighted-backends that this report is about: SHA-256 of exactly that text, as
	// 64 lower-case hexadecimal digits, or empty where the object has no such annotation. Where the object has the annotation http.kedify.io/managed-routes
	// beside it, that text counts too, behind a zero byte. Package internal/model/split computes it.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{64})?$`
	AnnotationHash string `json:"annotationHash"`
	// Proxies counts the proxies that serve the object.
	Proxies ProxyCounts `json:"proxies"`
	// StableHashes are the pod-template-hashes (label rollouts-pod-template-hash) of the ready Pods behind the stable Service, each once, in ascending order.
	// Pods without that label add nothing.
	// +optional
	// +listType=set
	StableHashes []string `json:"stableHashes,omitempty"`
	// Effective is true when every Ready proxy shares requests exactly as the annotations of AnnotationHash ask for: they were accepted, all of them have
	// acknowledged them, and no share is redirected, as that of a canary Service without ready endpoints is, and what a header route sends there. It is false
	// without Ready proxies.
	Effective bool `json:"effective"`
	// WeightedBackends is how requests are shared now, in the form of the annotation
	// http.kedify.io/weighted-backends; empty where spec.scaleTargetRef.service gets all of them. While the
	// annotation cannot be carried out it is the last one that could, and an interceptor that starts then
	// goes on from here.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	WeightedBackends string `json:"weightedBackends,omitempty"`
	// ManagedRoutes are the header and mirror routes in force, in the form of the annotation http.kedify.io/managed-routes; empty where there are none. They
	// are kept like WeightedBackends, and with it.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	ManagedRoutes string `json:"managedRoutes,omitempty"`
	// ReportedBy names the interceptor that wrote this report: the holder of the Lease.
	// +optional
	ReportedBy string `json:"reportedBy,omitempty"`
	// ResourceVersion is the object's metadata.resourceVersion that this report was made of. It is no older than the last write of the annotation or the spec
	// that the interceptor has seen, so it tells the report about an annotation from one about the same text of before. Empty where the interceptor is too
	// old to say.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ProxyCounts counts the proxies (Pods) that serve an HTTPScaledObject: those of its namespace, or the shared ones if it asks for them.
type ProxyCounts struct {
	// Ready is the number of Ready proxies.
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`
	// Acked is how many of them have acknowledged a configuration that carries the object as its annotation has it (AnnotationHash).
	// +kubebuilder:validation:Minimum=0
	Acked int32 `json:"acked"`
}
