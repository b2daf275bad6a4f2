package extauthz

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
)

// The outcomes of calls that are not rejected. The others are the reasons of the rejections.
const (
	outcomeServed   = "served"
	outcomePassed   = "passed"
	outcomeCanceled = "canceled"
)

// metrics count calls by their outcome. No label contains a workload, a proxy or a client.
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
			Help: "Requests to workloads without ready endpoints, by outcome: served, passed (without waiting), " +
				"canceled, deadline, failover, limit, paused, placeholder, probe, waiting-page, unknown.",
		}, []string{"outcome"}),
		times: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "waiting_seconds",
			Help:    "Waiting time of served requests.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1200},
		}),
	}
	// Counters start at 0: Prometheus derives no increase from the first sample of a series.
	for _, name := range []string{
		outcomeServed, outcomePassed, outcomeCanceled, ReasonDeadline, ReasonFailover, ReasonLimit, ReasonPaused, ReasonProbe,
		ReasonPage, ReasonPlaceholder, ReasonUnknown,
	} {
		m.calls.WithLabelValues(name)
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "waiting_requests",
		Help: "Requests that wait for a ready endpoint.",
	}, func() float64 {
		counts, _ := s.Counts()
		sum := 0
		for _, count := range counts {
			sum += count.Waiting
		}
		return float64(sum)
	})
	longest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "longest_waiting_seconds",
		Help: "Longest time for which requests to a workload wait without one of them being served; 0 if none waits.",
	}, func() float64 { return s.longestUnserved().Seconds() })
	var err error
	for _, collector := range []prometheus.Collector{m.calls, m.times, waiting, longest} {
		err = errors.Join(err, registerer.Register(collector))
	}
	return m, err
}

// count counts a call with its waiting time, 0 if it did not wait. It returns the outcome.
func (m *metrics) count(result outcome, waited time.Duration) (name string) {
	name = ReasonUnknown
	switch {
	case result.isReleased && waited > 0:
		name = outcomeServed
		m.times.Observe(waited.Seconds())
	case result.isReleased:
		name = outcomePassed
	case result.decision == holding.Probe:
		name = ReasonProbe
	case result.decision == holding.Page:
		name = ReasonPage
	case result.decision == holding.Placeholder:
		name = ReasonPlaceholder
	case result.decision == holding.Paused:
		name = ReasonPaused
	case result.decision == holding.Full:
		name = ReasonLimit
	}
	m.calls.WithLabelValues(name).Inc()
	return name
}

// expire counts a call that reached its deadline.
func (m *metrics) expire(hasFailover bool) {
	m.calls.WithLabelValues(expiredOutcome(hasFailover)).Inc()
}

// expiredOutcome returns the outcome of a call that reached its deadline.
func expiredOutcome(hasFailover bool) string {
	if hasFailover {
		return ReasonFailover
	}
	return ReasonDeadline
}

// cancel counts a call that the client canceled.
func (m *metrics) cancel() { m.calls.WithLabelValues(outcomeCanceled).Inc() }
