// Package split tells how the requests of one Rollout are shared at three places: what the controller asked for, what
// its router wrote, and what the proxies or the Gateway have taken. It gets values and returns values.
package split
