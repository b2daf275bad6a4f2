// Package rollouts contains what all routers do for a Rollout apart from its traffic: it emits Events for problems that
// do not make a call fail, checks whether the Rollout in an owner mark still uses an object, and makes promotions safe.
// When a canary is promoted, the controller points the stable Service at the new Pods. About 20 ms later it requests
// all traffic for that Service, whose endpoints are still the old Pods or none. A router waits here, in its UpdateHash,
// until the stable Service has the promoted Pods.
package rollouts
