// Package zero checks that requests wake apps without replicas. All components are real: KEDA, the scaler, the
// interceptor, Envoy and the kubelet.
package zero
