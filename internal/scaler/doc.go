// Package scaler is an external scaler for KEDA: a gRPC service for triggers of the types external-push and external.
// It reports whether a workload should run, and the value of its metric. It reads demand from a Reader and canaries
// from Canaries.
//
// Its rules follow from how KEDA 2.19 handles the answers (pkg/scalers/external_scaler.go, pkg/scaling/scale_handler.go
// and pkg/scaling/executor there):
//
//   - When a call fails, KEDA keeps the replicas or applies the fallback of the ScaledObject. So unknown demand is an
//     error, never a value.
//   - A pushed true starts a workload at once. A pushed false has no effect, and in releases before 2.18 it stops the
//     workload at once. So the scaler pushes only true, and leaves idle workloads to KEDA's polling.
//   - KEDA writes a time into the status of the ScaledObject for each pushed true. So the scaler repeats it only while
//     requests wait for the first replica.
//   - After a stream ends with an error, KEDA doubles its pause before the next one, up to a minute. Only a clean end
//     resets the pause to 2 s. So a stream ends cleanly when the process stops, and unknown demand ends none.
package scaler
