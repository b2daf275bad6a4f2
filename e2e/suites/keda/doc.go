// Package keda runs KEDA itself against the scaler and checks the number of replicas for the scaler's values. The test
// sets the values as annotations; see test/annotatedscaler.
package keda
