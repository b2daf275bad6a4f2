// Package trace evaluates recorded observations of a test that injects faults: which weights were not requested, which
// failed requests a running proxy could have served, and how long a router took. It has no side effects.
package trace
