// Package rollouts is what every router has to do with a Rollout beside its traffic: it tells the user what no call fails for, tells whether a Rollout that is marked
// as the owner of an object still is, and makes promotions safe. When a canary is promoted, the controller points the stable Service at the new Pods and asks, some 20
// ms later, for all requests to go back to that Service, whose endpoints are still the old Pods or none. A router waits here, in its UpdateHash, until the stable
// Service has the promoted Pods.
package rollouts
