// Package adopt computes the manifests that make a Rollout use router kedify/http with autoscaling by requests: the
// canary Service, a ScaledObject that replaces the HorizontalPodAutoscaler, and the Rollout with the router. It is
// pure: it has no client and no context.
package adopt
