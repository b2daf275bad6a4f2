package status

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// newMetrics registers the metrics of a writer and the other replicas, and returns the counter of requests that wrote something.
func newMetrics(registerer prometheus.Registerer, w *writer) (*prometheus.CounterVec, error) {
	gauge := func(name, help string, count func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "status", Name: name, Help: help + "; 0 on a replica that is not elected.",
		}, func() float64 { return float64(count()) })
	}
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "kedify", Subsystem: "status", Name: "writes_total",
		Help: "Requests that wrote a status or an Event, by kind and result.",
	}, []string{"kind", "result"})
	failed := registerer.Register(writes)
	for _, each := range []prometheus.Collector{
		gauge("unacked_objects", "HTTPScaledObjects that not every Ready proxy has taken as they are",
			func() int { return w.count(Taken.isUnacked) }),
		gauge("refused_objects", "HTTPScaledObjects that a proxy refused, each of them a bug",
			func() int { return w.count(func(is Taken) bool { return is.Refusal != "" }) }),
		gauge("unreachable_replicas", "Other replicas that do not tell what their proxies have taken", w.peers.Unreachable),
	} {
		failed = errors.Join(failed, registerer.Register(each))
	}
	if failed != nil {
		return nil, fmt.Errorf("register status metrics: %w", failed)
	}
	return writes, nil
}
