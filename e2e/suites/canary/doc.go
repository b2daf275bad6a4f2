// Package canary runs the edge cases of a canary on a real cluster under load: every kind of early end, the full weight
// as a separate step, and a paused proxy.
package canary
