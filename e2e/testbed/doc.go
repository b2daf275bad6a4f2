// Package testbed runs the guide's application on an embedded cluster of its
// own, sends requests to each proxy by itself, and keeps what every place says
// about the weights: each version of the objects that was ever stored, and what
// each Envoy runs.
package testbed
