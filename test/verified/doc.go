// Package verified kills and partitions components in the middle of a canary, with a real API server, the real Argo
// Rollouts controller, the built plugin and interceptor, and a real Envoy. No step passes that Envoy does not route.
package verified
