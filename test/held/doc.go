// Package held stops each component while requests are queued, with a real API server, the built interceptor and a real
// Envoy. Every request is served, or gets a 503 at its deadline.
package held
