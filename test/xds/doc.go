// Package test runs the discovery server with a real Envoy 1.40, the binary in ENVOY_BIN.
package test
