// Package scaler answers KEDA's questions about triggers of the types external-push and external:
// whether a workload should run, and by how much it is asked for. It is a gRPC service over two
// small interfaces: a Reader of demand figures, and Canaries, which says where a canary is under
// way.
//
// Its rules follow from what KEDA 2.19 does with the answers (pkg/scalers/external_scaler.go,
// pkg/scaling/scale_handler.go and pkg/scaling/executor there):
//
//   - KEDA keeps the replicas, or takes the user's fallback, when a question fails. So a figure
//     that is not known is an error, never a value.
//   - A pushed true wakes a workload at once. A pushed false does nothing there, and ends the
//     workload at once in releases before 2.18. So only true is pushed, and what is idle is left
//     to the poll.
//   - KEDA writes a time into the ScaledObject's status for each pushed true. So it is repeated
//     only while requests wait for a first replica.
//   - After a stream has ended with an error, KEDA waits twice as long as the time before, up to a
//     minute, and only a clean end of a stream makes the pause 2 s again. So a stream ends cleanly
//     when the process stops, and no unknown figure ends one.
package scaler
