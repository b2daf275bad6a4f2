// Package guide types the canary guide's commands one after the other, on a cluster with a real Ingress controller and
// KEDA, and compares what they print with what the guide shows. What differs stands in examples/argo-rollouts-canary.
package guide
