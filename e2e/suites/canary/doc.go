// Package canary runs the edge cases of a canary on a real cluster under load:
// every way in which it ends before its time, the full weight as a step of its
// own, and a proxy that stands still.
package canary
