package xds

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts into Prometheus. Its labels have few values: streams, nodes and
// resources are never labels.
type Metrics struct {
	streams   *prometheus.GaugeVec
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	acks      *prometheus.CounterVec
	nacks     *prometheus.CounterVec
	heldBack  [kindCount]prometheus.GaugeFunc
	server    atomic.Pointer[Server] // is asked what is held back, nil for none yet
}

// NewMetrics registers the metrics kedify_xds_streams{mode} and, all by {type},
// kedify_xds_responses_total, kedify_xds_resources_total, kedify_xds_acks_total,
// kedify_xds_nacks_total and kedify_xds_held_back. The error is that of the registry, when one of
// the names is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var problems []error
	for _, c := range []prometheus.Collector{m.streams, m.responses, m.resources, m.acks, m.nacks} {
		problems = append(problems, registry.Register(c))
	}
	for _, gauge := range m.heldBack {
		problems = append(problems, registry.Register(gauge))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("register discovery metrics: %w", err)
	}
	return m, nil
}

// newMetrics returns metrics that nobody reads yet.
func newMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		options := prometheus.CounterOpts{Namespace: "kedify", Subsystem: "xds", Name: name, Help: help}
		return prometheus.NewCounterVec(options, []string{"type"})
	}
	m := &Metrics{
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "streams",
			Help: "Discovery streams of proxies that are open.",
		}, []string{"mode"}),
		responses: counter("responses_total", "Discovery responses sent to proxies."),
		resources: counter("resources_total", "Resources that the responses carried, removals included."),
		acks:      counter("acks_total", "Responses that a proxy accepted."),
		nacks:     counter("nacks_total", "Responses that a proxy refused."),
	}
	for k := range kind(kindCount) {
		for _, vec := range []*prometheus.CounterVec{m.responses, m.resources, m.acks, m.nacks} {
			vec.WithLabelValues(k.String())
		}
		m.heldBack[k] = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "held_back", ConstLabels: prometheus.Labels{"type": k.String()},
			Help: "Resources that are not sent because a proxy refused them, summed over all open streams.",
		}, func() float64 {
			if server := m.server.Load(); server != nil {
				return float64(server.heldBack(k))
			}
			return 0
		})
	}
	return m
}
