// Package kube is a small client of the API server. It finds the API server, sends requests without client-go's types
// and rate limits, retries failures that are transient, and explains the others with a fix. Its [Cache] holds what a
// watch has delivered and, before the watch delivers it, the responses to its own reads and writes. So a call that
// changes nothing needs no request.
package kube
