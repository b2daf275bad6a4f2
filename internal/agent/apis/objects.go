package apis

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ScaledObject says which workload KEDA scales, and by what.
//
// +kubebuilder:object:root=true
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec ScaledObjectSpec `json:"spec"`
}

// ScaledObjectList is a list of ScaledObjects.
//
// +kubebuilder:object:root=true
type ScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects in no particular order.
	Items []ScaledObject `json:"items"`
}

// ScaledObjectSpec is the desired state of a ScaledObject.
type ScaledObjectSpec struct {
	// ScaleTargetRef names the workload.
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`
	// MinReplicaCount and MaxReplicaCount bound the replicas. They have 32 bits in KEDA's Go types,
	// but an API server takes 64 (the format of a number is not enforced), and one object that could
	// not be decoded would make the list of all unreadable.
	MinReplicaCount *int64 `json:"minReplicaCount,omitempty"`
	MaxReplicaCount *int64 `json:"maxReplicaCount,omitempty"`
	// Triggers are what the workload scales by.
	Triggers []Trigger `json:"triggers"`
}

// ScaleTargetRef names a workload of the ScaledObject's namespace.
type ScaleTargetRef struct {
	// Name is the workload's name.
	Name string `json:"name"`
	// APIVersion and Kind are its type. Empty ones mean apps/v1 and Deployment.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// Trigger is one thing that a workload scales by.
type Trigger struct {
	// Type chooses the scaler.
	Type string `json:"type"`
	// Name tells triggers apart. It may be empty.
	Name string `json:"name,omitempty"`
	// Metadata is the scaler's configuration.
	Metadata map[string]string `json:"metadata"`
}

// Rollout is a workload that takes new versions in steps.
//
// +kubebuilder:object:root=true
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec RolloutSpec `json:"spec"`
	// Status is what Argo Rollouts has made of it.
	Status RolloutStatus `json:"status"`
}

// RolloutList is a list of Rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects in no particular order.
	Items []Rollout `json:"items"`
}

// RolloutSpec is the desired state of a Rollout.
type RolloutSpec struct {
	// Strategy says how a new version comes.
	Strategy RolloutStrategy `json:"strategy"`
}

// RolloutStrategy has one field set.
type RolloutStrategy struct {
	// Canary shifts requests in steps.
	Canary *CanaryStrategy `json:"canary,omitempty"`
	// BlueGreen switches all requests at once.
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty"`
}

// CanaryStrategy names the Services of a canary.
type CanaryStrategy struct {
	// StableService is the Service of the stable version.
	StableService string `json:"stableService,omitempty"`
	// TrafficRouting says who shares the requests.
	TrafficRouting *TrafficRouting `json:"trafficRouting,omitempty"`
	// PingPong has two Services that take turns in being the stable one. It stands in for
	// StableService.
	PingPong *PingPong `json:"pingPong,omitempty"`
}

// TrafficRouting says who shares the requests of a canary.
type TrafficRouting struct {
	// Plugins are the configurations of traffic routers, by their names.
	Plugins map[string]json.RawMessage `json:"plugins,omitempty"`
}

// PingPong names two Services that take turns in being the stable one.
type PingPong struct {
	// PingService and PongService are their names.
	PingService string `json:"pingService"`
	PongService string `json:"pongService"`
}

// BlueGreenStrategy names the Services of a blue-green deployment.
type BlueGreenStrategy struct {
	// ActiveService is the Service of the version that serves.
	ActiveService string `json:"activeService,omitempty"`
}

// RolloutStatus is the observed state of a Rollout.
type RolloutStatus struct {
	// Canary is the state of a canary.
	Canary CanaryStatus `json:"canary"`
}

// CanaryStatus is the state of a canary.
type CanaryStatus struct {
	// StablePingPong says whose turn it is: StablePing, or the other Service's.
	StablePingPong string `json:"stablePingPong,omitempty"`
}

// StablePing is the value of CanaryStatus.StablePingPong while PingService is the stable one.
const StablePing = "ping"

// ScaledObjectKind is the kind of KEDA's object, in the version that the agent reads.
func ScaledObjectKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
}

// RolloutKind is the kind of Argo Rollouts' object, in the version that the agent reads.
func RolloutKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}
}

// AddToScheme teaches scheme the types of this package. It has the signature that
// runtime.SchemeBuilder collects and returns no error today.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(ScaledObjectKind().GroupVersion(), &ScaledObject{}, &ScaledObjectList{})
	metav1.AddToGroupVersion(scheme, ScaledObjectKind().GroupVersion())
	scheme.AddKnownTypes(RolloutKind().GroupVersion(), &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(scheme, RolloutKind().GroupVersion())
	scheme.AddKnownTypes(HTTPRouteKind().GroupVersion(), &HTTPRoute{}, &HTTPRouteList{})
	metav1.AddToGroupVersion(scheme, HTTPRouteKind().GroupVersion())
	scheme.AddKnownTypes(ReferenceGrantKind().GroupVersion(), &ReferenceGrant{}, &ReferenceGrantList{})
	metav1.AddToGroupVersion(scheme, ReferenceGrantKind().GroupVersion())
	return nil
}

// StableService is the Service of a Rollout that requests belong to while no new version comes:
// the stable one of a canary, the active one of a blue-green deployment. It is empty where the
// Rollout names none. Where the Rollout has its Pods from, its own template or a workloadRef, makes
// no difference.
func (in *Rollout) StableService() string {
	switch strategy := in.Spec.Strategy; {
	case strategy.BlueGreen != nil:
		return strategy.BlueGreen.ActiveService
	case strategy.Canary == nil:
		return ""
	case strategy.Canary.PingPong == nil:
		return strategy.Canary.StableService
	case in.Status.Canary.StablePingPong == StablePing:
		return strategy.Canary.PingPong.PingService
	default: // before the first turn, too (argo-rollouts, rollout/trafficrouting/service_helper.go)
		return strategy.Canary.PingPong.PongService
	}
}

// TargetsRollout says whether the ScaledObject scales a Rollout.
func (in *ScaledObject) TargetsRollout() bool {
	target, kind := in.Spec.ScaleTargetRef, RolloutKind()
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return err == nil && version.Group == kind.Group && target.Kind == kind.Kind
}
