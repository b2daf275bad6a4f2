// Package v1alpha1 holds the HTTPScaledObject, the Kubernetes object that says which HTTP requests belong to a workload, which Service answers them
// and, during a canary, how they are shared between Services.
//
// The schema is that of the KEDA HTTP add-on v0.11 (API group http.keda.sh, version v1alpha1) plus spec.headers, so that manifests written for it apply
// unchanged. The package holds types, names and registration only: it depends on k8s.io/apimachinery and carries no logic, but for reading objects that the
// schema lets through and that do not fit the types.
//
// The deepcopy functions beside this file and the CustomResourceDefinition under config/crd are generated from the types and their markers by
// "make generate".
//
// +kubebuilder:object:generate=true
// +groupName=http.keda.sh
package v1alpha1
