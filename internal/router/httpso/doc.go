// Package httpso implements the traffic router kedify/http. It writes the traffic split of a canary Rollout to the
// annotation http.kedify.io/weighted-backends of an HTTPScaledObject or an InterceptorRoute. The interceptor reads the
// annotation and configures Envoy. The router verifies by the interceptor's report that every proxy has ACKed the split.
//
// It writes only the annotations weighted-backends, weighted-backends-owner, managed-routes and stickiness, only if
// they change, under the field manager rollouts-plugin-kedify, and only if the live annotations are those that it read.
// A Rollout names its HTTPScaledObject in
// spec.strategy.canary.trafficRouting.plugins["kedify/http"].httpScaledObjectName, or its InterceptorRoute in the key
// interceptorRoute there.
package httpso
