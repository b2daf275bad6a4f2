package scaler

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Observer counts what the service does. Its methods are safe for concurrent use and do not block.
type Observer interface {
	// StreamOpened is called when KEDA opens a stream for a trigger, and StreamClosed after its end.
	StreamOpened()
	StreamClosed()
	// Pushed is called after each push.
	Pushed()
	// Answered is called after each unary call, with the name of its method and its status code.
	Answered(method, code string)
}

// Metrics is an Observer that counts into Prometheus metrics. None has an object as a label.
type Metrics struct {
	streams prometheus.Gauge
	pushes  prometheus.Counter
	calls   *prometheus.CounterVec
}

// NewMetrics registers kedify_scaler_streams, kedify_scaler_pushes_total and kedify_scaler_calls_total{method,code}. It
// returns the error of the registry if one of the names is already registered.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "streams",
			Help: "Open streams of KEDA, one for each trigger.",
		}),
		pushes: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "pushes_total",
			Help: "Pushes to KEDA that activate a workload.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "kedify", Subsystem: "scaler", Name: "calls_total",
			Help: "Calls from KEDA by method and gRPC status code.",
		}, []string{"method", "code"}),
	}
	var err error
	for _, collector := range []prometheus.Collector{m.streams, m.pushes, m.calls} {
		err = errors.Join(err, registry.Register(collector))
	}
	if err != nil {
		return nil, fmt.Errorf("register scaler metrics: %w", err)
	}
	return m, nil
}

// StreamOpened counts an open stream.
func (m *Metrics) StreamOpened() { m.streams.Inc() }

// StreamClosed counts the end of a stream.
func (m *Metrics) StreamClosed() { m.streams.Dec() }

// Pushed counts a push.
func (m *Metrics) Pushed() { m.pushes.Inc() }

// Answered counts a unary call.
func (m *Metrics) Answered(method, code string) { m.calls.WithLabelValues(method, code).Inc() }

// observe reports each unary call to observer. The server calls it only for methods that a service has, so clients
// cannot create labels.
func observe(observer Observer) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		code := codes.Internal // of a panic
		defer func() { observer.Answered(path.Base(info.FullMethod), code.String()) }()
		response, err := handle(ctx, request)
		code = status.Code(err)
		return response, err
	}
}
