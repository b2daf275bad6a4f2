package sink

import (
	"cmp"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const millisecondsPerSecond = 1000

// sinkMetrics are the metrics of the sink itself. No label contains a value from a proxy.
type sinkMetrics struct {
	messages, bytes, seen, used, idle prometheus.Counter
	failures                          *prometheus.CounterVec
}

// newMetrics registers the metrics of a sink, and those of backends. maxHistograms is as in Options.
func newMetrics(registerer prometheus.Registerer, s *Sink, maxHistograms int) (*sinkMetrics, error) {
	const namespace, subsystem = "kedify", "metric_sink"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(
			prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help},
		)
	}
	m := &sinkMetrics{
		messages: counter("messages_total", "Metric messages received."),
		bytes:    counter("received_bytes_total", "Bytes of metric messages received."),
		seen:     counter("received_metrics_total", "Metrics received."),
		used:     counter("used_metrics_total", "Metrics received and used."),
		idle: counter(
			"empty_messages_total", "Messages without new data for any HTTPScaledObject, including repeated ones.",
		),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failed_streams_total",
			Help: "Metric streams that ended with an error, by gRPC code.",
		}, []string{"code"}),
	}
	streams := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "streams", Help: "Open metric streams of proxies.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.streams))
	})
	omitted := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "omitted_histograms",
		Help: "Backends with requests and without kedify_backend_response_seconds, because of --max-response-histograms.",
	})
	var err error
	for _, collector := range []prometheus.Collector{
		streams, m.messages, m.bytes, m.seen, m.used, m.idle, m.failures, newBackends(s, maxHistograms, omitted),
	} {
		err = errors.Join(err, registerer.Register(collector))
	}
	return m, err
}

// message counts a message.
func (m *sinkMetrics) message(length int64, seen, used int) {
	m.messages.Inc()
	m.bytes.Add(float64(length))
	m.seen.Add(float64(seen))
	m.used.Add(float64(used))
}

// backends is a collector for the totals of the backends of HTTPScaledObjects. The series of a deleted backend
// disappear.
type backends struct {
	sink                    *Sink
	histograms              histograms
	omitted                 prometheus.Gauge
	requests, errors, times *prometheus.Desc
}

// newBackends returns the collector. maxHistograms is as in Options, and omitted counts the backends above it.
func newBackends(s *Sink, maxHistograms int, omitted prometheus.Gauge) *backends {
	// The Prometheus operator adds labels namespace and service, those of the scraped Pod.
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("kedify_backend_"+name, help, []string{"object_namespace", "httpscaledobject", "backend"}, nil)
	}
	return &backends{
		sink: s, histograms: histograms{limit: maxHistograms}, omitted: omitted,
		requests: desc("requests_total", "Requests to a backend, from the proxies that report to this replica."),
		errors:   desc("errors_total", "Requests to a backend with a response status of 500 to 599."),
		times:    desc("response_seconds", "Response times of a backend in seconds."),
	}
}

// Describe implements prometheus.Collector.
func (b *backends) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- b.requests
	descriptions <- b.errors
	descriptions <- b.times
	descriptions <- b.omitted.Desc()
}

// backend is a backend of an object. totals are nil before the first request to any backend of the object.
type backend struct {
	key     model.Key
	service string
	totals  *metrics.Totals
}

// Collect implements prometheus.Collector. Counters exist from the start, so that rates include the first request. The
// histograms of an object's backends, with nineteen buckets each, exist after the first request to any of them, up to
// the limit of all.
func (b *backends) Collect(series chan<- prometheus.Metric) {
	all, objects := b.read()
	chosen, omitted := b.histograms.choose(objects)
	b.omitted.Set(float64(omitted))
	series <- b.omitted
	var nothing metrics.Totals
	for _, entry := range all {
		labels := []string{entry.key.Namespace, entry.key.Name, entry.service}
		totals := cmp.Or(entry.totals, &nothing)
		series <- prometheus.MustNewConstMetric(b.requests, prometheus.CounterValue, totals.Requests, labels...)
		series <- prometheus.MustNewConstMetric(b.errors, prometheus.CounterValue, totals.Errors, labels...)
		if _, isChosen := chosen[entry.key]; !isChosen || entry.totals == nil {
			continue
		}
		buckets := make(map[float64]uint64, metrics.TimeBuckets)
		for i, bound := range metrics.TimeBounds() {
			buckets[bound/millisecondsPerSecond] = totals.Times.Cumulative[i]
		}
		series <- prometheus.MustNewConstHistogram(
			b.times, totals.Times.Count, totals.Times.Sum/millisecondsPerSecond, buckets, labels...,
		)
	}
}

// read returns the backends of all objects, and the objects with requests.
func (b *backends) read() (all []backend, objects []active) {
	b.sink.mu.Lock()
	defer b.sink.mu.Unlock()
	b.sink.meter.VisitBackends(func(key model.Key, service string, totals *metrics.Totals) {
		all = append(all, backend{key, service, totals})
		if totals == nil {
			return
		}
		if last := len(objects) - 1; last >= 0 && objects[last].key == key {
			objects[last].backends++ // The backends of an object are visited one after the other.
		} else {
			objects = append(objects, active{key, 1})
		}
	})
	return all, objects
}
