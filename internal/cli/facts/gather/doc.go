// Package gather reads a cluster into [facts.Facts]. Each request has a timeout. An error for one resource is recorded
// and does not prevent the reading of the others.
package gather
