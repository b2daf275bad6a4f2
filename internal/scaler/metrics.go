package scaler

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Observer is told what the service does, to count it. Its methods are called from many goroutines
// at once and must not block.
type Observer interface {
	// StreamOpened is called when KEDA opens a stream for a trigger, StreamClosed when it has
	// ended.
	StreamOpened()
	StreamClosed()
	// Pushed is called for each true that was pushed.
	Pushed()
	// Answered is called for each call but streams, with its method's name and the code of its
	// status.
	Answered(method, code string)
}

// Metrics counts into Prometheus. Objects are never labels.
type Metrics struct {
	streams prometheus.Gauge
	pushes  prometheus.Counter
	calls   *prometheus.CounterVec
}

// NewMetrics registers kedify_scaler_streams, kedify_scaler_pushes_total and
// kedify_scaler_calls_total{method,code}. The error is that of the registry, when one of the names
// is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "streams",
			Help: "Triggers that KEDA has a stream open for.",
		}),
		pushes: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "pushes_total",
			Help: "Times that KEDA was told over a stream that a workload is active.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "calls_total",
			Help: "Questions of KEDA by method and by the code of the answer's gRPC status.",
		}, []string{"method", "code"}),
	}
	var failed error
	for _, collector := range []prometheus.Collector{m.streams, m.pushes, m.calls} {
		failed = errors.Join(failed, registry.Register(collector))
	}
	if failed != nil {
		return nil, fmt.Errorf("register metrics of the scaler: %w", failed)
	}
	return m, nil
}

// StreamOpened counts an open stream.
func (m *Metrics) StreamOpened() { m.streams.Inc() }

// StreamClosed counts its end.
func (m *Metrics) StreamClosed() { m.streams.Dec() }

// Pushed counts a push.
func (m *Metrics) Pushed() { m.pushes.Inc() }

// Answered counts a call.
func (m *Metrics) Answered(method, code string) { m.calls.WithLabelValues(method, code).Inc() }

// observe tells an Observer of each call of a service. Names of methods that no service has never
// get here, so that clients can make no labels.
func observe(observer Observer) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		response, err := handle(ctx, request)
		observer.Answered(path.Base(info.FullMethod), status.Code(err).String())
		return response, err
	}
}
