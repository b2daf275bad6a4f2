package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the HTTPScaledObject.
	Group = "http.keda.sh"
	// Version is the API version that this package describes.
	Version = "v1alpha1"
	// Kind is the kind of a single HTTPScaledObject.
	Kind = "HTTPScaledObject"
	// Resource is the plural resource name, as it stands in REST paths and in RBAC rules.
	Resource = "httpscaledobjects"
)

// SchemeGroupVersion is the group and version under which AddToScheme registers the types of this package.
//
//nolint:gochecknoglobals // Kubernetes API packages export it under this name and callers treat it as a constant; Go has no constant structs.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme teaches scheme the types of this package. It has the signature that runtime.SchemeBuilder collects and returns no error today.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &HTTPScaledObject{}, &HTTPScaledObjectList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
