// Package gateway runs the Gateway API guides on the embedded cluster, with Envoy Gateway and Traefik as
// implementations, with Istio, or with Contour. It uses the guides' manifests and the router argoproj-labs/gatewayAPI,
// and measures the traffic from outside, and from a Pod past the Gateway. The run sessions takes users with cookies
// through a canary with stickiness.
//
// `make test-gateway` runs it; GATEWAY_WALKS selects some of the guide runs, GATEWAY the implementation, and
// GATEWAY_CRDS the CRDs.
package gateway
