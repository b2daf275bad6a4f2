// Package envoy holds tests against the real Envoy: it must accept what package translate makes, and do with requests what package ir promises.
//
// They need a binary of Envoy, whose path is in the environment variable ENVOY_BIN; `make test` provides one. Without it they fail.
package envoy
