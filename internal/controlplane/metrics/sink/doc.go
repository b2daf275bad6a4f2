// Package sink receives the metrics of Envoy proxies and keeps the demand for each
// HTTPScaledObject: a server of envoy.service.metrics.v3.MetricsService/StreamMetrics before a
// demand.Meter.
//
// A stream belongs to a fleet by its peer's address, as a discovery stream does (package xds): every
// proxy sends the same node id. It may report the clusters of its fleet's objects and nothing else. A
// proxy of no fleet may report the clusters that an HTTPScaledObject names as its external key, if there is one.
//
// One message has all metrics of a proxy: several megabytes with thousands of clusters, and twenty times as many
// as are used. So messages are read as they come, metric by metric, and are never in memory as a whole; a message
// counts when it was read to its end. gRPC's own server reads a message whole before it hands it on, so
// the frames of gRPC are read here, on the HTTP/2 server of the standard library. See
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
package sink
