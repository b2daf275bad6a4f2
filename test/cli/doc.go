// Package cli tests the built kubectl plugin against a real API server with the manifests that users apply: those of
// Argo Rollouts, KEDA, the Gateway API and this project. No controller runs: the tests write the status of objects.
package cli
