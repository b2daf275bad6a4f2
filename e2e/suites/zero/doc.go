// Package zero has requests wake apps that have no replica, with every real part: KEDA, the scaler, the
// interceptor, Envoy and the kubelet.
package zero
