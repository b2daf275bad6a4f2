// Package httpso is the traffic router kedify/http: it writes how a canary Rollout's requests are shared into the annotation
// http.kedify.io/weighted-backends of an HTTPScaledObject, from where the interceptor takes it to Envoy.
//
// Only that annotation is ever written, under the field manager rollouts-plugin-kedify, with the resource version that the decision was made on, and only
// when it changes. A Rollout names its HTTPScaledObject under spec.strategy.canary.trafficRouting.plugins["kedify/http"].httpScaledObjectName.
package httpso
