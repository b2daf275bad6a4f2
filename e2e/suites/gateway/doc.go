// Package gateway walks through the Gateway API guides on the embedded cluster
// with Envoy Gateway and Traefik as the implementations: their manifests, the
// router argoproj-labs/gatewayAPI, and traffic that is measured from outside.
//
// Walks that need different objects go side by side. It is run by
// `make test-gateway`; GATEWAY_WALKS chooses among the walks.
package gateway
