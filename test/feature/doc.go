// Package feature tests the whole chain of the interceptor in one process: watched objects go in, and a discovery client that behaves as Envoy does receives
// over gRPC what comes out. Only the API server and Envoy are played.
package feature
