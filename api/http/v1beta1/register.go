package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the InterceptorRoute, that of the HTTPScaledObject.
	Group = "http.keda.sh"
	// Version is the API version of this package.
	Version = "v1beta1"
	// Kind is the kind of an InterceptorRoute.
	Kind = "InterceptorRoute"
	// Resource is the plural resource name in REST paths and RBAC rules.
	Resource = "interceptorroutes"
)

// SchemeGroupVersion is the group and version of the types in this package.
//
//nolint:gochecknoglobals // Kubernetes API packages export it under this name and callers treat it as a constant; Go has no constant structs.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme adds the types of this package to scheme. Its signature is that of runtime.SchemeBuilder; it always
// returns nil.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &InterceptorRoute{}, &InterceptorRouteList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
