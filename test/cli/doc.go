// Package cli tests the built kubectl plugin against a real API server, on which an installation is what users apply:
// the manifests of Argo Rollouts, KEDA, the Gateway API and ours. No controller runs: what they would report, the tests
// write.
package cli
