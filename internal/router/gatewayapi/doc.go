// Package gatewayapi is the traffic router argoproj-labs/gatewayAPI: it writes how a canary Rollout's requests are shared into the weights of Gateway API routes, and
// its header and mirror routes as rules of those routes.
//
// What a route should look like is worked out by package route, which is pure; here is what it takes to carry that out: a Rollout's configuration, which version of
// the Gateway API the cluster serves, reading and writing, who owns a route, and whether the Gateway has taken it.
//
// A route is written whole (PUT) with the resource version that the decision was made on, because the permissions that users of this router have given to
// the controller allow update, not patch. It is written only when it changes, and none is before all of the Rollout's routes are found fit.
package gatewayapi
