// Package metrics turns the counters of proxies into the demand for each HTTPScaledObject: its request
// rate and its concurrency. It is pure: batches of metrics and times in, values out.
//
// A [Meter] is what one replica of the interceptor knows. A proxy's metric stream is a [Stream] of
// it; each [Batch] of the stream holds the counters of the proxy's clusters, which are named
// <namespace>/<HTTPScaledObject>/<Service>. All clusters of an object count.
//
//	batches ──▶ Stream ──▶ Meter ── Report ──▶ Merge of all replicas' Reports ──▶ Value, or why there is none
//
// # Request rate
//
// The rate is that of the window of the object's [Spec]: the requests in it, divided by the part of it of
// which anything is known. A stream that is interrupted leaves a gap, and a gap is left out: it is
// not counted as time without requests. Requests are kept in buckets of the Spec's granularity, or
// wider ones where the window has more than 60 of them; the requests of one batch are spread evenly over the
// time since the batch before. So the rate does not depend on how granularity and flush interval fit.
//
// A Meter keeps at most 62 numbers for each object and proxy, and only while requests of the object's
// window went through the proxy.
//
// # Clocks
//
// All times are the receiver's, and monotonic. The timestamp of a batch, the proxy's clock, tells only
// which batch it is: one that comes twice counts once, and one that was lost in the middle of a
// stream shows as a gap of the timestamps.
//
// # Deltas and totals
//
// Envoy reports counters as they are, or as the difference since the flush before
// (MetricsServiceConfig.report_counters_as_deltas), and doesn't say which. But it leaves out counters that
// were never touched, so one that only ever grows and is zero is a difference; and some of these are nearly
// always at rest (cluster_manager.cluster_added), so that differences have a zero in nearly each flush. A
// stream without a zero in two whole flushes reports totals. See
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-v3/config/metrics/v3/metrics_service.proto.
//
// # Missing data
//
// A proxy that takes requests and is not heard makes the demand for its objects unknown: see [Merge]. What
// is unknown is an error, so that nobody scales in for want of data. What the others have counted stands
// beside the error, as a lower bound.
package metrics
