// Package gatewaydocs tests the manifests in docs/*/gateway-api*.md: it applies each to a real API server with the CRDs
// of the Gateway API and of Argo Rollouts, runs each Rollout through its steps with the built plugin, and compares the
// routes with those that the pages show for a step.
package gatewaydocs
