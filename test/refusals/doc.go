// Package refusals tests the effect of invalid input from end to end: the built plugin over go-plugin, a real etcd and
// kube-apiserver, the built interceptor, a real Envoy and real requests. Each row of its two tables has one validation
// error, with the exact error of the call, or the exact conditions and Event. Meanwhile the weight of another object
// changes, and its requests follow. docs/reference/errors.md shows the same rows.
//
// The tests need etcd, kube-apiserver and Envoy. Their paths are in the environment variables ETCD_BIN,
// KUBE_APISERVER_BIN and ENVOY_BIN, which `make test-parts` sets. The tests run in a network of their own.
package refusals
