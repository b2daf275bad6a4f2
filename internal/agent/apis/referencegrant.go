package apis

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ReferenceGrant says which objects of other namespaces may name which of its own: without one, a Gateway answers 500 for a
// backend of another namespace.
//
// +kubebuilder:object:root=true
type ReferenceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is allowed.
	Spec ReferenceGrantSpec `json:"spec"`
}

// ReferenceGrantList is a list of ReferenceGrants.
//
// +kubebuilder:object:root=true
type ReferenceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the objects in no particular order.
	Items []ReferenceGrant `json:"items"`
}

// ReferenceGrantSpec allows each of From to name each of To.
type ReferenceGrantSpec struct {
	// From are the objects that may name others.
	From []ReferenceGrantFrom `json:"from"`
	// To are those that may be named.
	To []ReferenceGrantTo `json:"to"`
}

// ReferenceGrantFrom are the objects of a kind in a namespace.
type ReferenceGrantFrom struct {
	// Group and Kind are the type's; the core group is empty.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Namespace is where they are.
	Namespace string `json:"namespace"`
}

// ReferenceGrantTo are objects in the ReferenceGrant's namespace.
type ReferenceGrantTo struct {
	// Group and Kind are the type's; the core group is empty.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Name is the one object's that is meant; nil means all of the kind.
	Name *string `json:"name,omitempty"`
}

// ReferenceGrantKind is the kind of the Gateway API's object, in the version that every Gateway API since 1.0 has.
func ReferenceGrantKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "ReferenceGrant"}
}
