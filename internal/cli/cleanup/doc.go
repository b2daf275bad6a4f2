// Package cleanup finds what Rollouts and interceptors that are gone have left on other objects, and works out how it
// is taken away. It gets values and returns values.
//
// The controller makes no call when a Rollout is deleted, or its trafficRouting is, so its split stays in force. Only
// what carries a mark of ours, and of somebody who is provably gone, is left over; what may be a user's is Unowned.
package cleanup
