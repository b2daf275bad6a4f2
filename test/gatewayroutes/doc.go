// Package gatewayroutes tests that a real API server, with the CustomResourceDefinitions of two releases of the Gateway API, takes what package
// internal/router/gatewayapi/route makes of a route, and gives it back such that nothing is left to be changed: what it adds, drops or refuses would otherwise make
// the router write at every reconcile, or lose sight of its own rules.
package gatewayroutes
