package apis

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ScaledObject defines the workload that KEDA scales, and its triggers.
//
// +kubebuilder:object:root=true
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec ScaledObjectSpec `json:"spec"`
}

// ScaledObjectList is a list of ScaledObjects.
//
// +kubebuilder:object:root=true
type ScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []ScaledObject `json:"items"`
}

// ScaledObjectSpec is the desired state of a ScaledObject.
type ScaledObjectSpec struct {
	// ScaleTargetRef references the workload.
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`
	// MinReplicaCount and MaxReplicaCount bound the replicas. KEDA's Go types have 32 bits, but an API server
	// accepts 64, because it does not enforce the format of a number. One object that does not decode would make
	// the list of all objects unreadable.
	MinReplicaCount *int64 `json:"minReplicaCount,omitempty"`
	MaxReplicaCount *int64 `json:"maxReplicaCount,omitempty"`
	// Triggers are the event sources that the workload scales by.
	Triggers []Trigger `json:"triggers"`
}

// ScaleTargetRef references a workload in the ScaledObject's namespace.
type ScaleTargetRef struct {
	// Name is the workload's name.
	Name string `json:"name"`
	// APIVersion and Kind are the workload's type. They default to apps/v1 and Deployment.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// Trigger is one event source of a ScaledObject.
type Trigger struct {
	// Type is the type of scaler.
	Type string `json:"type"`
	// Name identifies the trigger. It may be empty.
	Name string `json:"name,omitempty"`
	// Metadata is the scaler's configuration.
	Metadata map[string]string `json:"metadata"`
}

// Rollout is a workload that Argo Rollouts updates progressively.
//
// +kubebuilder:object:root=true
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec RolloutSpec `json:"spec"`
	// Status is the observed state.
	Status RolloutStatus `json:"status"`
}

// RolloutList is a list of Rollouts.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []Rollout `json:"items"`
}

// RolloutSpec is the desired state of a Rollout.
type RolloutSpec struct {
	// Strategy is the update strategy.
	Strategy RolloutStrategy `json:"strategy"`
}

// RolloutStrategy has exactly one field set.
type RolloutStrategy struct {
	// Canary shifts traffic in steps.
	Canary *CanaryStrategy `json:"canary,omitempty"`
	// BlueGreen switches all traffic at once.
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty"`
}

// CanaryStrategy defines the Services of a canary.
type CanaryStrategy struct {
	// StableService is the Service of the stable version, CanaryService that of the new one.
	StableService string `json:"stableService,omitempty"`
	CanaryService string `json:"canaryService,omitempty"`
	// TrafficRouting configures the traffic routers.
	TrafficRouting *TrafficRouting `json:"trafficRouting,omitempty"`
	// PingPong replaces StableService by two Services that alternate as the stable one.
	PingPong *PingPong `json:"pingPong,omitempty"`
}

// TrafficRouting configures the traffic routers of a canary.
type TrafficRouting struct {
	// Plugins are the configurations of traffic router plugins, by plugin name.
	Plugins map[string]json.RawMessage `json:"plugins,omitempty"`
	// Nginx and ALB are the routers of the controller itself that split the traffic of Ingresses.
	Nginx *IngressRouting `json:"nginx,omitempty"`
	ALB   *IngressRouting `json:"alb,omitempty"`
	// Istio is the router of the controller itself that sets the weights of VirtualServices.
	Istio *IstioRouting `json:"istio,omitempty"`
}

// IstioRouting names the VirtualServices of a traffic router, of which only one field is set.
type IstioRouting struct {
	VirtualService  *RoutedVirtualService  `json:"virtualService,omitempty"`
	VirtualServices []RoutedVirtualService `json:"virtualServices,omitempty"`
}

// RoutedVirtualService names a VirtualService.
type RoutedVirtualService struct {
	// Name is the name, which a dot and the namespace may follow.
	Name string `json:"name"`
}

// IngressRouting names the Ingresses of a traffic router: those of nginx are StableIngress and StableIngresses, those of
// alb are Ingress and Ingresses.
type IngressRouting struct {
	StableIngress   string   `json:"stableIngress,omitempty"`
	StableIngresses []string `json:"stableIngresses,omitempty"`
	Ingress         string   `json:"ingress,omitempty"`
	Ingresses       []string `json:"ingresses,omitempty"`
}

// PingPong defines two Services that alternate as the stable one.
type PingPong struct {
	// PingService and PongService are the names of the Services.
	PingService string `json:"pingService"`
	PongService string `json:"pongService"`
}

// BlueGreenStrategy defines the Services of a blue-green deployment.
type BlueGreenStrategy struct {
	// ActiveService is the Service of the version that receives the traffic, PreviewService that of the next one.
	ActiveService  string `json:"activeService,omitempty"`
	PreviewService string `json:"previewService,omitempty"`
}

// RolloutStatus is the observed state of a Rollout.
type RolloutStatus struct {
	// Canary is the state of a canary.
	Canary CanaryStatus `json:"canary"`
}

// CanaryStatus is the state of a canary.
type CanaryStatus struct {
	// StablePingPong is StablePing if PingService is the stable Service. Otherwise PongService is.
	StablePingPong string `json:"stablePingPong,omitempty"`
}

// StablePing is the value of CanaryStatus.StablePingPong while PingService is the stable Service.
const StablePing = "ping"

// ScaledObjectKind returns the kind and version of ScaledObjects that the agent reads.
func ScaledObjectKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
}

// RolloutKind returns the kind and version of Rollouts that the agent reads.
func RolloutKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}
}

// AddToScheme adds the types of this package to scheme. Its signature is that of runtime.SchemeBuilder; it always
// returns nil.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(ScaledObjectKind().GroupVersion(), &ScaledObject{}, &ScaledObjectList{})
	metav1.AddToGroupVersion(scheme, ScaledObjectKind().GroupVersion())
	scheme.AddKnownTypes(RolloutKind().GroupVersion(), &Rollout{}, &RolloutList{})
	metav1.AddToGroupVersion(scheme, RolloutKind().GroupVersion())
	scheme.AddKnownTypes(HTTPRouteKind().GroupVersion(), &HTTPRoute{}, &HTTPRouteList{})
	metav1.AddToGroupVersion(scheme, HTTPRouteKind().GroupVersion())
	scheme.AddKnownTypes(ReferenceGrantKind().GroupVersion(), &ReferenceGrant{}, &ReferenceGrantList{})
	metav1.AddToGroupVersion(scheme, ReferenceGrantKind().GroupVersion())
	scheme.AddKnownTypes(BackendTLSPolicyKind().GroupVersion(), &BackendTLSPolicy{}, &BackendTLSPolicyList{})
	alpha := AlphaBackendTLSPolicyKind()
	scheme.AddKnownTypeWithName(alpha, &AlphaBackendTLSPolicy{})
	scheme.AddKnownTypeWithName(alpha.GroupVersion().WithKind(alpha.Kind+"List"), &AlphaBackendTLSPolicyList{})
	metav1.AddToGroupVersion(scheme, alpha.GroupVersion())
	scheme.AddKnownTypes(VirtualServiceKind().GroupVersion(), &VirtualService{}, &VirtualServiceList{},
		&DestinationRule{}, &DestinationRuleList{})
	metav1.AddToGroupVersion(scheme, VirtualServiceKind().GroupVersion())
	scheme.AddKnownTypes(RouteKind().GroupVersion(), &Route{}, &RouteList{})
	metav1.AddToGroupVersion(scheme, RouteKind().GroupVersion())
	return nil
}

// StableService returns the Service that receives the traffic of a Rollout while no update is in progress: the
// stable Service of a canary, or the active Service of a blue-green deployment. It is empty if the Rollout has
// none. It does not depend on whether the Pods come from the Rollout's own template or from a workloadRef.
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
	default: // also before the first switch (argo-rollouts, rollout/trafficrouting/service_helper.go)
		return strategy.Canary.PingPong.PongService
	}
}

// ManagedServices returns the Services whose selectors the controller of a Rollout writes.
func (in *Rollout) ManagedServices() []string {
	var names []string
	if canary := in.Spec.Strategy.Canary; canary != nil {
		names = append(names, canary.StableService, canary.CanaryService)
		if canary.PingPong != nil {
			names = append(names, canary.PingPong.PingService, canary.PingPong.PongService)
		}
	}
	if blueGreen := in.Spec.Strategy.BlueGreen; blueGreen != nil {
		names = append(names, blueGreen.ActiveService, blueGreen.PreviewService)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Names returns the names of the Ingresses.
func (in *IngressRouting) Names() []string {
	if in == nil {
		return nil
	}
	names := slices.Concat([]string{in.StableIngress, in.Ingress}, in.StableIngresses, in.Ingresses)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Ingresses returns the names of the Ingresses of all routers.
func (in *TrafficRouting) Ingresses() []string {
	return slices.Concat(in.Nginx.Names(), in.ALB.Names())
}

// Names returns the names of the VirtualServices, as written.
func (in *IstioRouting) Names() []string {
	if in == nil {
		return nil
	}
	var names []string
	if in.VirtualService != nil {
		names = append(names, in.VirtualService.Name)
	}
	for _, named := range in.VirtualServices {
		names = append(names, named.Name)
	}
	return names
}

// TargetsRollout reports whether the ScaledObject scales a Rollout.
func (in *ScaledObject) TargetsRollout() bool {
	target, kind := in.Spec.ScaleTargetRef, RolloutKind()
	version, err := schema.ParseGroupVersion(target.APIVersion)
	return err == nil && version.Group == kind.Group && target.Kind == kind.Kind
}
