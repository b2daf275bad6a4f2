package status

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what is counted.
type metrics struct {
	writes      *prometheus.CounterVec
	unacked     prometheus.Gauge
	refused     prometheus.Gauge
	unreachable prometheus.Gauge
}

// newMetrics makes the metrics and registers them.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kedify", Subsystem: "status", Name: name, Help: help})
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "status", Name: "writes_total",
			Help: "Requests that wrote a status or an Event, by kind and result.",
		}, []string{"kind", "result"}),
		unacked: gauge("unacked_objects",
			"HTTPScaledObjects that not every Ready proxy has taken as they are; 0 on a replica that is not elected."),
		refused: gauge("refused_objects",
			"HTTPScaledObjects that a proxy refused, each of them a bug; 0 on a replica that is not elected."),
		unreachable: gauge("unreachable_replicas",
			"Other replicas that do not tell what their proxies have taken; 0 on a replica that is not elected."),
	}
	var failed error
	for _, collector := range []prometheus.Collector{m.writes, m.unacked, m.refused, m.unreachable} {
		failed = errors.Join(failed, registerer.Register(collector))
	}
	return m, failed
}

// count keeps the gauges up to date with what became of one object; the zero value stands for that it
// is gone.
func (m *metrics) count(before, after Taken) {
	m.unacked.Add(toFloat(after.isUnacked()) - toFloat(before.isUnacked()))
	m.refused.Add(toFloat(after.Refusal != "") - toFloat(before.Refusal != ""))
}

// toFloat is 1 for true.
func toFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// forget sets the gauges to what they are on a replica that is not elected.
func (m *metrics) forget() {
	m.unacked.Set(0)
	m.refused.Set(0)
}
