//go:build race

package envoy_test

// raceFactor is how many times as long Go's code takes with the race detector, about: 5 was measured for the metric sink.
const raceFactor = 5
