package xds

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
)

// Metrics are the Prometheus metrics of a server. Labels have few values: streams, nodes and resources are never
// labels.
type Metrics struct {
	streams *prometheus.GaugeVec
	// unauthenticated counts the streams of proxies that have not proven their fleet.
	unauthenticated prometheus.Gauge
	responses       *prometheus.CounterVec
	resources       *prometheus.CounterVec
	acks            *prometheus.CounterVec
	nacks           *prometheus.CounterVec
	heldBack        [session.KindCount]prometheus.GaugeFunc
	server          atomic.Pointer[Server] // the source of heldBack, nil for none yet
}

// NewMetrics registers the metrics kedify_xds_streams{mode}, kedify_xds_unauthenticated_streams and, all by {type},
// kedify_xds_responses_total, kedify_xds_resources_total, kedify_xds_acks_total,
// kedify_xds_nacks_total and kedify_xds_rejected_resources. It returns the error of the registry if one of the names
// is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := newMetrics()
	var failures []error
	for _, c := range []prometheus.Collector{m.streams, m.unauthenticated, m.responses, m.resources, m.acks, m.nacks} {
		failures = append(failures, registry.Register(c))
	}
	for _, gauge := range m.heldBack {
		failures = append(failures, registry.Register(gauge))
	}
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("register discovery metrics: %w", err)
	}
	return m, nil
}

// newMetrics returns metrics that are not registered.
func newMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		options := prometheus.CounterOpts{Namespace: "kedify", Subsystem: "xds", Name: name, Help: help}
		return prometheus.NewCounterVec(options, []string{"type"})
	}
	m := &Metrics{
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "streams",
			Help: "Open discovery streams of proxies.",
		}, []string{"mode"}),
		unauthenticated: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "unauthenticated_streams",
			Help: "Open discovery streams of proxies that have not proven their namespace, which receive no private keys.",
		}),
		responses: counter("responses_total", "Discovery responses sent to proxies."),
		resources: counter("resources_total", "Resources in the responses, including removals."),
		acks:      counter("acks_total", "Responses that a proxy accepted."),
		nacks:     counter("nacks_total", "Responses that a proxy rejected."),
	}
	for k := range session.Kind(session.KindCount) {
		for _, vec := range []*prometheus.CounterVec{m.responses, m.resources, m.acks, m.nacks} {
			vec.WithLabelValues(k.String())
		}
		m.heldBack[k] = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "rejected_resources",
			ConstLabels: prometheus.Labels{"type": k.String()},
			Help:        "Resources that are not sent because a proxy rejected them, summed over all open streams.",
		}, func() float64 {
			if server := m.server.Load(); server != nil {
				return float64(server.heldBack(k))
			}
			return 0
		})
	}
	return m
}
