// Package autoscaling runs the guide's objects, unchanged, with a stock KEDA. The agent creates the HTTPScaledObject,
// Envoy counts the requests, the scaler reports them to KEDA, and KEDA scales the Rollout, also while components are
// killed. An analysis aborts a canary that responds with errors.
package autoscaling
