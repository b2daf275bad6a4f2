// Package gather reads a cluster into [installation.Facts]. Each request has a deadline; what cannot be read is
// noted and stops nothing else.
package gather
