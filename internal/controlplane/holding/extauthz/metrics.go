package extauthz

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
)

// metrics count calls by what they came to. Apps, proxies and clients are never labels.
type metrics struct {
	calls *prometheus.CounterVec
	times prometheus.Histogram
}

// newMetrics registers the metrics of a Server.
func newMetrics(registerer prometheus.Registerer, s *Server) (*metrics, error) {
	const namespace, subsystem = "kedify", "hold"
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests that proxies have asked about, by what they came to: served, passed (they never waited), " +
				"canceled, deadline, failover, limit, paused, probe, waiting-page, unknown.",
		}, []string{"outcome"}),
		times: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "waiting_seconds",
			Help:    "How long requests have waited that were served then.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1200},
		}),
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "waiting_requests",
		Help: "Requests that wait for an endpoint.",
	}, func() float64 {
		counts, _ := s.Counts()
		sum := 0
		for _, count := range counts {
			sum += count.Waiting
		}
		return float64(sum)
	})
	return m, errors.Join(registerer.Register(m.calls), registerer.Register(m.times), registerer.Register(waiting))
}

// count counts a call that was answered after a time; 0 says that it was at once.
func (m *metrics) count(is outcome, after time.Duration) {
	name := ReasonUnknown
	switch {
	case is.goesOn && after > 0:
		name = "served"
		m.times.Observe(after.Seconds())
	case is.goesOn:
		name = "passed"
	case is.verdict == holding.Probe:
		name = ReasonProbe
	case is.verdict == holding.Page:
		name = ReasonPage
	case is.verdict == holding.Paused:
		name = ReasonPaused
	case is.verdict == holding.Full:
		name = ReasonLimit
	}
	m.calls.WithLabelValues(name).Inc()
}

// expire and cancel count a call that waited in vain.
func (m *metrics) expire(failsOver bool) {
	reason := ReasonDeadline
	if failsOver {
		reason = ReasonFailover
	}
	m.calls.WithLabelValues(reason).Inc()
}

func (m *metrics) cancel() { m.calls.WithLabelValues("canceled").Inc() }
