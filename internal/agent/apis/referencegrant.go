package apis

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ReferenceGrant allows objects of other namespaces to reference objects of its own namespace. Without one, a
// Gateway answers 500 for a backend in another namespace.
//
// +kubebuilder:object:root=true
type ReferenceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the permission.
	Spec ReferenceGrantSpec `json:"spec"`
}

// ReferenceGrantList is a list of ReferenceGrants.
//
// +kubebuilder:object:root=true
type ReferenceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects, in no particular order.
	Items []ReferenceGrant `json:"items"`
}

// ReferenceGrantSpec allows each of From to reference each of To.
type ReferenceGrantSpec struct {
	// From are the objects that may contain references.
	From []ReferenceGrantFrom `json:"from"`
	// To are the objects that may be referenced.
	To []ReferenceGrantTo `json:"to"`
}

// ReferenceGrantFrom is the set of objects of a kind in a namespace.
type ReferenceGrantFrom struct {
	// Group and Kind are the type. The core group is empty.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Namespace is the namespace of the objects.
	Namespace string `json:"namespace"`
}

// ReferenceGrantTo is a set of objects in the ReferenceGrant's namespace.
type ReferenceGrantTo struct {
	// Group and Kind are the type. The core group is empty.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Name is the name of the only object; nil means all objects of the kind.
	Name *string `json:"name,omitempty"`
}

// ReferenceGrantKind returns the kind and version of ReferenceGrants, which every Gateway API since 1.0 serves.
func ReferenceGrantKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "ReferenceGrant"}
}
