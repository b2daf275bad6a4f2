// Package faults repeatedly kills each component during a canary, under the demo's load, and evaluates requests and
// weights: see docs/dev/faults.md.
package faults
