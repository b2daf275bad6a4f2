// Package testbed runs the guide's application on an embedded cluster, sends requests to each proxy separately, and
// records the canary's weights. The record contains each stored version of the objects and the weight that each Envoy
// runs.
package testbed
