// Package interceptorroutes tests InterceptorRoutes end to end, with the scenarios that users of the KEDA HTTP add-on
// rely on: a real etcd and kube-apiserver, the built interceptor and scaler, a real Envoy, and real requests. Each test
// is one statement about an InterceptorRoute, and docs/dev/addon-scenarios.md compares them with the add-on's.
//
// The tests read the paths of etcd, kube-apiserver and Envoy from the environment variables ETCD_BIN,
// KUBE_APISERVER_BIN and ENVOY_BIN; `make test-parts` provides them. They run in a new network namespace.
package interceptorroutes
