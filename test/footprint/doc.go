// Package footprint measures the memory that the interceptor retains: the real ingest, resolve, translate, xds, status
// and metric sink, with an API server and xDS clients that store nothing. The size of the live heap is nearly the same
// in every run, so a test enforces limits.
package footprint
