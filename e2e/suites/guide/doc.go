// Package guide runs the canary guide's commands in order on a cluster with a real Ingress controller and KEDA, and
// compares their output with the guide. Differences are documented in examples/argo-rollouts-canary.
package guide
