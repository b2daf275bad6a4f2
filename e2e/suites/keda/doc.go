// Package keda runs KEDA itself against the scaler: what a workload has of replicas for what the
// scaler tells. The figures are set by the test, as annotations; see test/annotatedscaler.
package keda
