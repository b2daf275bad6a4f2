package xds

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Observer is told what happens on the streams, to count it. Its methods are
// called from the streams' goroutines at once and must not block. Types are
// named cluster, endpoint, listener, scope and secret.
type Observer interface {
	// StreamOpened is called when a proxy connects.
	StreamOpened(mode Mode)
	// StreamClosed is called when its stream ends, once for each StreamOpened.
	StreamClosed(mode Mode)
	// Sent is called after each response with the number of resources that it
	// carried, removals included.
	Sent(resourceType string, resources int)
	// Answered is called for each ACK (accepted) and NACK.
	Answered(resourceType string, accepted bool)
	// HeldBack is called when proxies are kept from more (or, if it is negative, fewer) resources than
	// before because they refused them. It is counted once for each stream.
	HeldBack(resourceType string, change int)
}

// silent is the Observer of a server that was given none.
type silent struct{}

func (silent) StreamOpened(Mode)     {}
func (silent) StreamClosed(Mode)     {}
func (silent) Sent(string, int)      {}
func (silent) Answered(string, bool) {}
func (silent) HeldBack(string, int)  {}

// Metrics counts into Prometheus. Its labels have few values: streams, nodes and
// resources are never labels.
type Metrics struct {
	streams   *prometheus.GaugeVec
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	acks      *prometheus.CounterVec
	nacks     *prometheus.CounterVec
	heldBack  *prometheus.GaugeVec
}

// NewMetrics registers the metrics kedify_xds_streams{mode} and, all by {type},
// kedify_xds_responses_total, kedify_xds_resources_total, kedify_xds_acks_total,
// kedify_xds_nacks_total and kedify_xds_held_back. The error is that of the registry, when one of
// the names is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
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
		heldBack: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "xds", Name: "held_back",
			Help: "Resources that are not sent because a proxy refused them, summed over all open streams.",
		}, []string{"type"}),
	}
	var problems []error
	all := []prometheus.Collector{m.streams, m.responses, m.resources, m.acks, m.nacks, m.heldBack}
	for _, c := range all {
		problems = append(problems, registry.Register(c))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("register discovery metrics: %w", err)
	}
	for k := range kind(kindCount) {
		for _, vec := range []*prometheus.CounterVec{m.responses, m.resources, m.acks, m.nacks} {
			vec.WithLabelValues(k.String())
		}
		m.heldBack.WithLabelValues(k.String())
	}
	return m, nil
}

// StreamOpened implements [Observer].
func (m *Metrics) StreamOpened(mode Mode) { m.streams.WithLabelValues(mode.String()).Inc() }

// StreamClosed implements [Observer].
func (m *Metrics) StreamClosed(mode Mode) { m.streams.WithLabelValues(mode.String()).Dec() }

// Sent implements [Observer].
func (m *Metrics) Sent(resourceType string, resources int) {
	m.responses.WithLabelValues(resourceType).Inc()
	m.resources.WithLabelValues(resourceType).Add(float64(resources))
}

// Answered implements [Observer].
func (m *Metrics) Answered(resourceType string, accepted bool) {
	if accepted {
		m.acks.WithLabelValues(resourceType).Inc()
		return
	}
	m.nacks.WithLabelValues(resourceType).Inc()
}

// HeldBack implements [Observer].
func (m *Metrics) HeldBack(resourceType string, change int) {
	m.heldBack.WithLabelValues(resourceType).Add(float64(change))
}
