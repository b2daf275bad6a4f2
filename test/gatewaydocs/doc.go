// Package gatewaydocs tests that the manifests in docs/*/gateway-api*.md are right: each is applied to a real API server with the CustomResourceDefinitions of the
// Gateway API and of Argo Rollouts, each Rollout is played through its steps with the built plugin, and the routes that the pages show for a step are those that
// come out.
package gatewaydocs
