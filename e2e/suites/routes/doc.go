// Package routes has canaries with a header route, a mirror route and an Experiment under load, with both routers on an
// embedded cluster: kedify/http behind kedify-proxy, and argoproj-labs/gatewayAPI behind Envoy Gateway.
//
// Each Pod answers with its name, so that every answer tells who gave it. It is run by `make test-routes`.
package routes
