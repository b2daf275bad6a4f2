// Package httpso is the traffic router kedify/http: it writes how a canary Rollout's requests are shared into the annotation
// http.kedify.io/weighted-backends of an HTTPScaledObject, from where the interceptor takes it to Envoy, and verifies by the interceptor's report that every
// proxy has taken it.
//
// Only that annotation and its owner's mark are ever written, under the field manager rollouts-plugin-kedify, with the resource version that the decision was
// made on, and only when they change. A Rollout names its HTTPScaledObject under
// spec.strategy.canary.trafficRouting.plugins["kedify/http"].httpScaledObjectName.
package httpso
