package ingest

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the loop.
type metrics struct {
	passes        prometheus.Counter
	passSeconds   prometheus.Histogram
	failures      *prometheus.CounterVec // by stage
	watchErrors   *prometheus.CounterVec // by resource
	objects       *prometheus.GaugeVec   // by resource
	problems      prometheus.Gauge
	routes        prometheus.Gauge
	lastSucceeded prometheus.Gauge
	quarantined   prometheus.Gauge
}

// The stages of a pass that can fail.
const (
	stageResolve   = "resolve"
	stageTranslate = "translate"
	stagePublish   = "publish"
	stageObserve   = "observe"
)

// newMetrics creates and registers the metrics.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "kedify", "ingest"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name,
			Help: help,
		})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
	}
	m := &metrics{
		passes: counter("passes_total",
			"Passes: changes of the watched objects that were resolved, translated and published."),
		passSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "pass_duration_seconds",
			Help:    "Time from reading the watched objects to the end of the publication.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "failures_total",
			Help: "Failures of objects or passes, by stage: resolve, translate, publish, observe. The last good configuration " +
				"stays active. Each failure is a bug.",
		}, []string{"stage"}),
		watchErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "watch_errors_total",
			Help: "Failed lists and watches, by resource.",
		}, []string{"resource"}),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "objects", Help: "Objects in memory, by resource.",
		}, []string{"resource"}),
		problems: gauge("problems", "Validation errors in HTTPScaledObjects that are reported in their status."),
		routes:   gauge("routes", "Routes in the last published configuration."),
		quarantined: gauge("quarantined_objects",
			"HTTPScaledObjects with their last good configuration, because the current one fails. This is a bug."),
		lastSucceeded: gauge("last_success_timestamp_seconds", "Unix time of the last successful publication."),
	}
	// Counters start at 0: Prometheus derives no increase from the first sample of a series.
	for _, stage := range []string{stageResolve, stageTranslate, stagePublish, stageObserve} {
		m.failures.WithLabelValues(stage)
	}
	var err error
	for _, collector := range []prometheus.Collector{
		m.passes, m.passSeconds, m.failures, m.watchErrors, m.objects, m.problems, m.routes, m.lastSucceeded,
		m.quarantined,
	} {
		err = errors.Join(err, registerer.Register(collector))
	}
	return m, err
}
