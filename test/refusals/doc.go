// Package refusals tests the handling of invalid configuration end to end, with the built plugin over go-plugin, a real
// etcd and kube-apiserver, the built interceptor, a real Envoy and real requests. Each row of its two tables is one
// validation error, with the exact error of the call, or the exact conditions and Event. While the error lasts, the
// weight of a neighbor changes and its requests follow. docs/reference/errors.md shows the same rows.
//
// The tests read the paths of etcd, kube-apiserver and Envoy from the environment variables ETCD_BIN,
// KUBE_APISERVER_BIN and ENVOY_BIN; `make test-parts` provides them. They run in a new network namespace.
package refusals
