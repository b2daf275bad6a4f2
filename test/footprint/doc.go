// Package footprint measures what the interceptor keeps in memory: the real ingest, resolve, translate,
// xds, status and metric sink, with an API server and discovery clients that keep nothing. Bytes of the
// live heap are nearly the same in every run, so a test holds a limit on them.
package footprint
