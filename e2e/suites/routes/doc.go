// Package routes runs canaries with a header route, a mirror route and an Experiment under load, with both routers on
// an embedded cluster: kedify/http behind kedify-proxy, and argoproj-labs/gatewayAPI behind Envoy Gateway.
//
// Each Pod responds with its name, so that every response identifies its Pod. `make test-routes` runs it.
package routes
