package status

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// newMetrics registers the metrics of a writer, and returns the counter of write requests.
func newMetrics(registerer prometheus.Registerer, w *writer) (*prometheus.CounterVec, error) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "status", Name: name, Help: help + "; 0 on a replica that is not elected.",
		}, value)
	}
	count := func(matches func(*record) bool) func() float64 {
		return func() float64 { return float64(w.count(matches)) }
	}
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "kedify", Subsystem: "status", Name: "writes_total",
		Help: "Requests that wrote a status or an Event, by kind and result.",
	}, []string{"kind", "result"})
	failed := registerer.Register(writes)
	for _, collector := range []prometheus.Collector{
		gauge("unacked_objects", "Published HTTPScaledObjects that not every Ready proxy has acknowledged",
			count(func(r *record) bool { return !r.incompleteSince.IsZero() })),
		gauge("longest_unacked_seconds",
			"Longest time for which not every Ready proxy has acknowledged a published HTTPScaledObject",
			func() float64 { return w.longestIncomplete().Seconds() }),
		gauge("rejected_objects", "HTTPScaledObjects that a proxy rejected; each is a bug of the interceptor",
			count(func(r *record) bool { return r.acks.Rejection != "" })),
		gauge("unreachable_replicas", "Other replicas that do not report the ACKs of their proxies",
			func() float64 { return float64(w.peers.Unreachable()) }),
		newFleets(w),
	} {
		failed = errors.Join(failed, registerer.Register(collector))
	}
	if failed != nil {
		return nil, fmt.Errorf("register status metrics: %w", failed)
	}
	return writes, nil
}

// fleets is a collector for the proxies of fleets. The elected replica has a series for each fleet that an object
// requires, and the other replicas have none.
type fleets struct {
	writer *writer
	ready  *prometheus.Desc
}

// newFleets returns the collector.
func newFleets(w *writer) *fleets {
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("kedify_status_"+name, help, labels, nil)
	}
	return &fleets{writer: w, ready: desc("fleet_ready_proxies",
		"Ready proxies of a fleet that published HTTPScaledObjects need; only on the elected replica.",
		[]string{"fleet"})}
}

// Describe implements prometheus.Collector.
func (f *fleets) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- f.ready }

// Collect implements prometheus.Collector.
func (f *fleets) Collect(series chan<- prometheus.Metric) {
	for fleet, count := range f.writer.readyProxies() {
		series <- prometheus.MustNewConstMetric(f.ready, prometheus.GaugeValue, float64(count), string(fleet))
	}
}
