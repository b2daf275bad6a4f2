package apis

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BackendTLSPolicy makes Gateways use TLS to Services of its namespace.
//
// +kubebuilder:object:root=true
type BackendTLSPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec BackendTLSPolicySpec `json:"spec"`
}

// BackendTLSPolicyList is a list of BackendTLSPolicies.
//
// +kubebuilder:object:root=true
type BackendTLSPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []BackendTLSPolicy `json:"items"`
}

// AlphaBackendTLSPolicy is a BackendTLSPolicy of version v1alpha3, the only one of Gateway API 1.1 to 1.3. The fields
// that the agent reads are the same.
//
// +kubebuilder:object:root=true
type AlphaBackendTLSPolicy struct {
	BackendTLSPolicy `json:",inline"`
}

// AlphaBackendTLSPolicyList is a list of BackendTLSPolicies of version v1alpha3.
//
// +kubebuilder:object:root=true
type AlphaBackendTLSPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []AlphaBackendTLSPolicy `json:"items"`
}

// BackendTLSPolicySpec is the desired state of a BackendTLSPolicy. The agent does not need its certificates.
type BackendTLSPolicySpec struct {
	// TargetRefs are the Services to which the policy applies.
	TargetRefs []PolicyTargetReference `json:"targetRefs,omitempty"`
}

// PolicyTargetReference references an object to which a policy applies, in the policy's namespace.
type PolicyTargetReference struct {
	// Group and Kind are the type. The core group is empty.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Name is the object's name.
	Name string `json:"name"`
	// SectionName is the name of the only port of a Service; nil means all ports.
	SectionName *string `json:"sectionName,omitempty"`
}

// BackendTLSPolicyKind returns the kind and version of BackendTLSPolicies since Gateway API 1.4.
func BackendTLSPolicyKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "BackendTLSPolicy"}
}

// AlphaBackendTLSPolicyKind returns the kind and version of BackendTLSPolicies of Gateway API 1.1 to 1.3.
func AlphaBackendTLSPolicyKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1alpha3", Kind: "BackendTLSPolicy"}
}
