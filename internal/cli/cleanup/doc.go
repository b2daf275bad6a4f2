// Package cleanup finds what deleted Rollouts and uninstalled components left on other objects, and computes the
// request that removes it. It is pure: it has no client and no context.
//
// The Argo Rollouts controller does not call a router when a Rollout or its trafficRouting is deleted, so the traffic
// split stays active. Only data with an owner annotation whose owner is known to be gone is a leftover. Data that may
// belong to a user is marked as Unowned.
package cleanup
