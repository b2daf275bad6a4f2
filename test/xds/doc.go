// Package test plays the discovery server against a real Envoy 1.40, the binary
// that ENVOY_BIN names.
package test
