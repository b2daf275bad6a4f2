//go:build !race

package envoy_test

// raceFactor is 1 without the race detector.
const raceFactor = 1
