// Package feature tests the interceptor in one process: its input are watched objects, its output is what a discovery
// client that behaves like Envoy receives over gRPC. Only the API server and Envoy are fakes.
package feature
