// Package apiserver tests the product with a real API server: what the CustomResourceDefinition accepts and rejects,
// what the shipped roles allow, and concurrent writers of one object.
//
// The tests need etcd and kube-apiserver. Their paths are in the environment variables ETCD_BIN and KUBE_APISERVER_BIN,
// which `make test-parts` sets. Without them the tests fail.
package apiserver
