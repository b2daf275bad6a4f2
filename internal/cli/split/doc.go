// Package split reports the traffic split of one Rollout at three places: the weights that the controller desires, the
// weights that its router has written, and whether the proxies or the Gateway have applied them. It is pure: it has no
// client and no context.
package split
