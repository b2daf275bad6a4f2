// Package refusals tests what becomes of bad input from end to end: the built plugin over go-plugin, a real etcd and kube-apiserver, the built interceptor, a real
// Envoy and real requests. Each row of its two tables has one mistake, and for it the exact error of the call, or the exact conditions and Event; while the
// mistake is there, a neighbour's weight changes and the requests follow it. docs/reference/errors.md shows the same rows.
//
// The tests need the paths of etcd, kube-apiserver and Envoy in the environment variables ETCD_BIN, KUBE_APISERVER_BIN and ENVOY_BIN; `make test-parts`
// provides them. They run in a network of their own.
package refusals
