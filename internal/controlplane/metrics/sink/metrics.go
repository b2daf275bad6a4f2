package sink

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const millisecondsPerSecond = 1000

// metrics are about the sink itself. None has a label that a proxy chooses.
type sinkMetrics struct {
	messages, bytes, seen, kept, idle prometheus.Counter
	refusals                          *prometheus.CounterVec
}

// newMetrics registers the metrics of a sink, and those of its backends.
func newMetrics(registerer prometheus.Registerer, s *Sink) (*sinkMetrics, error) {
	const namespace, subsystem = "kedify", "metric_sink"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	m := &sinkMetrics{
		messages: counter("messages_total", "Messages that were read."),
		bytes:    counter("received_bytes_total", "Bytes of them."),
		seen:     counter("received_metrics_total", "Metrics in them."),
		kept:     counter("used_metrics_total", "Metrics in them that can be used."),
		idle:     counter("empty_messages_total", "Messages in which nothing was new for any HTTPScaledObject, repeated ones included."),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failed_streams_total",
			Help: "Metric streams that ended with an error, by gRPC code.",
		}, []string{"code"}),
	}
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "streams", Help: "Metric streams of proxies that are open.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.streams))
	})
	var failed error
	for _, each := range []prometheus.Collector{streams, m.messages, m.bytes, m.seen, m.kept, m.idle, m.refusals, newBackends(s)} {
		failed = errors.Join(failed, registerer.Register(each))
	}
	return m, failed
}

// message counts a message.
func (m *sinkMetrics) message(length int64, seen, kept int) {
	m.messages.Inc()
	m.bytes.Add(float64(length))
	m.seen.Add(float64(seen))
	m.kept.Add(float64(kept))
}

// backends collects what the backends of HTTPScaledObjects were asked. A series goes with its backend.
type backends struct {
	sink                    *Sink
	requests, errors, times *prometheus.Desc
}

// newBackends returns the collector.
func newBackends(s *Sink) *backends {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kedify_backend_"+name, help, []string{"namespace", "httpscaledobject", "service"}, nil)
	}
	return &backends{
		sink:     s,
		requests: desc("requests_total", "Requests that proxies have sent to a backend, by those that report to this replica."),
		errors:   desc("errors_total", "Those of them that were answered with a status of 500 to 599."),
		times:    desc("response_seconds", "How long the backend took to answer."),
	}
}

// Describe is prometheus.Collector's.
func (b *backends) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- b.requests
	descriptions <- b.errors
	descriptions <- b.times
}

// Collect is prometheus.Collector's. Counters are there from the beginning, so that rates miss no request. The times of an object's backends are nineteen
// buckets each, and come once any of them was asked.
func (b *backends) Collect(series chan<- prometheus.Metric) {
	type backend struct {
		key     model.Key
		service string
		totals  *metrics.Totals // nil while nobody has asked any backend of the object
	}
	var all []backend
	b.sink.mu.Lock()
	b.sink.meter.EachBackend(func(key model.Key, service string, totals *metrics.Totals) {
		all = append(all, backend{key, service, totals})
	})
	b.sink.mu.Unlock()
	var nothing metrics.Totals
	for _, each := range all {
		labels := []string{each.key.Namespace, each.key.Name, each.service}
		totals := cmp.Or(each.totals, &nothing)
		series <- prometheus.MustNewConstMetric(b.requests, prometheus.CounterValue, totals.Requests, labels...)
		series <- prometheus.MustNewConstMetric(b.errors, prometheus.CounterValue, totals.Errors, labels...)
		if each.totals == nil {
			continue
		}
		buckets := make(map[float64]uint64, metrics.TimeBuckets)
		for i, bound := range metrics.TimeBounds() {
			buckets[bound/millisecondsPerSecond] = totals.Times.Cumulative[i]
		}
		series <- prometheus.MustNewConstHistogram(b.times, totals.Times.Count, totals.Times.Sum/millisecondsPerSecond, buckets, labels...)
	}
}
