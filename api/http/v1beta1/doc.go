// Package v1beta1 contains the InterceptorRoute API. An InterceptorRoute defines which HTTP requests belong to a
// workload, which Service receives them, and the metrics by which the workload scales. The annotations of package
// v1alpha1 apply to it as they do to an HTTPScaledObject.
//
// The schema is that of the KEDA HTTP add-on 0.14 and later (API group http.keda.sh, version v1beta1), so that its
// CustomResourceDefinition and existing manifests work unchanged. The package contains types, names and registration.
// It depends on k8s.io/apimachinery only, and its only logic is the decoding of objects that the schema accepts and
// that do not fit the types.
//
// "make generate" generates the deepcopy functions and the CustomResourceDefinition in config/crd from the types and
// their markers.
//
// +kubebuilder:object:generate=true
// +groupName=http.keda.sh
package v1beta1
