// Package held ends each part while requests wait, with a real API server, the built interceptor and a real Envoy: every request is answered, or refused by its
// deadline.
package held
