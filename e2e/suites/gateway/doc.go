// Package gateway walks through the Gateway API guides on the embedded cluster
// with Envoy Gateway as the implementation: their manifests, the router
// argoproj-labs/gatewayAPI, and traffic that is measured from outside.
//
// It is run by `make test-gateway`.
package gateway
