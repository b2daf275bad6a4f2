// Package autoscaling runs the guide's objects, unchanged, with a stock KEDA: the agent makes the
// HTTPScaledObject, Envoy counts the requests, the scaler tells KEDA, and the Rollout has the replicas
// that the requests ask for, also while parts of it die. A canary that answers with errors is aborted.
package autoscaling
