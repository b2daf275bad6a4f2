// Package v1alpha1 contains the HTTPScaledObject API. An HTTPScaledObject defines which HTTP requests belong to a
// workload, which Service receives them and, during a canary, how traffic is split between Services.
//
// The schema is that of the KEDA HTTP add-on v0.11 (API group http.keda.sh, version v1alpha1) plus spec.headers,
// so that existing manifests apply unchanged. The package contains types, names and registration. It depends on
// k8s.io/apimachinery only, and its only logic is the decoding of objects that the schema accepts and that do not
// fit the types.
//
// "make generate" generates the deepcopy functions and the CustomResourceDefinition in config/crd from the types
// and their markers.
//
// +kubebuilder:object:generate=true
// +groupName=http.keda.sh
package v1alpha1
