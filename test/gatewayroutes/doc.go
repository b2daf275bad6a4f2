// Package gatewayroutes tests that a real API server, with the CRDs of two releases of the Gateway API, accepts the
// routes of package internal/router/gatewayapi/route and returns them without a difference: fields that the API server
// adds, prunes or rejects would make the router write in every reconcile, or lose track of its own rules.
//
// It also tests which fields both routers own (metadata.managedFields) before, during and after a canary, and what that
// means for the author of an object, who uses server-side apply.
package gatewayroutes
