// Package sink receives the metrics of Envoy proxies and counts the demand for each HTTPScaledObject: it serves
// envoy.service.metrics.v3.MetricsService/StreamMetrics and passes the counters to a metrics.Meter.
//
// A stream belongs to the fleet of its peer's address, like a discovery stream (package xds), because every proxy sends
// the same node id. Only the clusters of its fleet's objects count. A proxy outside of all fleets may report the
// clusters that HTTPScaledObjects name as external keys, if there are any.
//
// One message contains all metrics of a proxy: several megabytes with thousands of clusters, twenty times as many as
// are used. So the sink decodes messages incrementally, metric by metric, and never keeps a whole message in memory. A
// message counts when it was read completely. gRPC's own server reads a whole message before it decodes it, so the sink
// reads gRPC frames itself, on the HTTP/2 server of the standard library. See
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
package sink
