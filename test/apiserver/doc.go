// Package apiserver tests what the product and a real API server make of each other: what the CustomResourceDefinition
// takes and refuses, what the shipped roles allow, and what becomes of an annotation that many write to.
//
// The tests need etcd and kube-apiserver, whose paths are in the environment variables ETCD_BIN and KUBE_APISERVER_BIN;
// `make test-parts` provides them. Without them they fail.
package apiserver
