// Package gatewayapi implements the traffic router argoproj-labs/gatewayAPI. It writes the traffic split of a canary
// Rollout to the weights of Gateway API routes, and its header and mirror routes as rules of those routes.
//
// Package route computes the desired content of a route; it is pure. This package contains the rest: the configuration
// in a Rollout, discovery of the served version of the Gateway API, reading and writing, ownership, and the status that
// the Gateway reports.
//
// A route is replaced as a whole (PUT), with the resource version that the plan was based on, because the permissions
// that users of this router have granted to the controller include update, but not patch. It is written only if it
// changes, and only after all of the Rollout's routes have a valid plan.
package gatewayapi
