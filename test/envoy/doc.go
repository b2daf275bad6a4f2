// Package envoy tests a real Envoy with the resources of package translate: it has to accept them, and route requests
// as package model describes.
//
// The tests need Envoy. Its path is in the environment variable ENVOY_BIN, which `make test-parts` sets. Without it the
// tests fail.
package envoy
