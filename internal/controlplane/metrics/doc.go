// Package metrics converts the counters of proxies to the demand for each HTTPScaledObject: its request rate and its
// concurrency. It is pure: its inputs are batches of metrics and times, and its output is values.
//
// A [Meter] contains the counts of one replica of the interceptor. A [Stream] is the metric stream of one proxy. Each
// [Batch] of a stream contains the counters of the proxy's clusters, which are named
// <namespace>/<HTTPScaledObject>/<Service>. The demand for an object sums all its clusters.
//
//	batches ──▶ Stream ──▶ Meter ── Report ──▶ Merge of the Reports of all replicas ──▶ Value, or an error
//
// # Request rate
//
// The rate is the number of requests in the window of the object's [Spec], divided by the covered part of the window.
// An interrupted stream leaves a gap. A gap is not covered: it does not count as time without requests. Requests are
// kept in buckets of the Spec's granularity, or in wider ones if the window has more than 60 of them. The requests of
// one batch are spread evenly over the time since the batch before. So the rate does not depend on the ratio of
// granularity and flush interval.
//
// A Meter keeps at most 62 numbers for each object and proxy, and only while the proxy has had requests of the object
// within the window.
//
// # Clocks
//
// All times are the receiver's, and monotonic. The timestamp of a batch, from the proxy's clock, only identifies the
// batch: a repeated batch counts once, and a batch lost in the middle of a stream shows as a gap of the timestamps.
//
// # Deltas and totals
//
// Envoy reports counters as totals, or as the difference since the last flush
// (MetricsServiceConfig.report_counters_as_deltas), and does not indicate which. But it omits counters that were never
// incremented, so a counter that only increases and is zero is a difference. Some of these are nearly always unchanged
// (cluster_manager.cluster_added), so that differences contain a zero in nearly each flush. A stream without a zero in
// two whole flushes reports totals. See
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/config/metrics/v3/metrics_service.proto.
//
// # Missing data
//
// If a proxy serves requests and its metrics are missing, the demand for its objects is unknown: see [Merge]. Unknown
// demand is an error, so that missing data never scales a workload in. The counts of the other proxies are returned
// with the error, as a lower bound.
package metrics
