package scaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// Service is the gRPC service externalscaler.ExternalScaler.
type Service struct {
	externalscaler.UnimplementedExternalScalerServer

	reader   Reader
	canaries Canaries
	observer Observer
	logger   *slog.Logger

	closing   chan struct{}
	closeOnce sync.Once
}

// NewService returns a Service that answers from reader and canaries. It counts into observer, and logs failed calls to
// logger.
func NewService(reader Reader, canaries Canaries, observer Observer, logger *slog.Logger) *Service {
	return &Service{
		reader: reader, canaries: canaries, observer: observer, logger: logger,
		closing: make(chan struct{}),
	}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(on *grpcserver.Server) {
	on.RegisterWithLimits(&externalscaler.ExternalScaler_ServiceDesc, s, methodLimits())
}

// Close ends all streams, including later ones, with status OK: KEDA then connects to another replica within 2 s. It
// does not block, and further calls have no effect.
func (s *Service) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// IsActive reports whether the workload should have replicas: the metric is above its activation value, a request is
// queued or in flight, or a canary is in progress. One of these is enough, even if the others are unknown.
func (s *Service) IsActive(
	ctx context.Context, ref *externalscaler.ScaledObjectRef,
) (*externalscaler.IsActiveResponse, error) {
	q, err := parse(ref)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	state, err := s.activity(q)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	return &externalscaler.IsActiveResponse{Result: state != idle}, nil
}

// GetMetricSpec returns the trigger's metrics and targets. They depend only on the metadata, except those of a trigger
// with an InterceptorRoute, which are unknown until an interceptor has reported the InterceptorRoute.
func (s *Service) GetMetricSpec(
	ctx context.Context, ref *externalscaler.ScaledObjectRef,
) (*externalscaler.GetMetricSpecResponse, error) {
	q, err := parse(ref)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	var demand metrics.Value
	if q.isOfRoute {
		demand, err = s.reader.Demand(model.Key(q.object))
	}
	var specs []*externalscaler.MetricSpec
	for _, t := range q.targets(demand) {
		specs = append(specs, &externalscaler.MetricSpec{MetricName: t.name(), TargetSizeFloat: t.value})
	}
	if len(specs) == 0 {
		return nil, s.fail(ctx, ref, cmp.Or(err, errNoTarget))
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: specs}, nil
}

// GetMetrics returns the value of one of the trigger's metrics. A lower bound is an error.
func (s *Service) GetMetrics(
	ctx context.Context, request *externalscaler.GetMetricsRequest,
) (*externalscaler.GetMetricsResponse, error) {
	ref := request.GetScaledObjectRef()
	q, err := parse(ref)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	demand, err := s.demand(q)
	name, targets := request.GetMetricName(), q.targets(demand)
	index := slices.IndexFunc(targets, func(t target) bool { return t.name() == name })
	if len(targets) > 0 && index < 0 {
		// After an edit of the trigger, a HorizontalPodAutoscaler may request the previous metric once more.
		return nil, s.fail(ctx, ref, fmt.Errorf("%w: metric %q requested, but the trigger has %s", errTrigger, name,
			namesOf(targets)))
	}
	var value float64
	switch {
	case err != nil:
	case index < 0:
		err = errNoTarget
	default:
		value, err = targets[index].valueOf(demand)
	}
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	values := []*externalscaler.MetricValue{{MetricName: name, MetricValueFloat: value}}
	return &externalscaler.GetMetricsResponse{MetricValues: values}, nil
}

// demand returns the demand for the trigger's object. For a trigger that scales proxies, its Concurrency is their number
// of connections.
func (s *Service) demand(q query) (metrics.Value, error) {
	if q.connections == 0 {
		return s.reader.Demand(model.Key(q.object))
	}
	connections, err := s.reader.Connections(model.Fleet(q.object.Namespace))
	return metrics.Value{Concurrency: connections}, err
}

// errNoTarget means that the interceptors report an InterceptorRoute without a target.
var errNoTarget = errors.New("the interceptors report no scaling metric of the InterceptorRoute")

// namesOf returns the names of metrics.
func namesOf(targets []target) string {
	var names []string
	for _, t := range targets {
		names = append(names, t.name())
	}
	return strings.Join(names, " and ")
}

// activity is why a workload should have replicas.
type activity int

const (
	idle   activity = iota
	active          // demand above the activation value, requests in flight, or a canary in progress
	queued          // requests wait for the first replica
)

// activity returns why the trigger's workload should have replicas. An error means that there is no proof of activity,
// and that some of the data is missing.
func (s *Service) activity(q query) (activity, error) {
	demand, err := s.demand(q)
	if demand.Queued > 0 {
		return queued, nil
	}
	for _, t := range q.targets(demand) {
		if t.isActive(demand, q.ActivationTargetValue) {
			return active, nil
		}
		if _, errValue := t.valueOf(demand); err == nil {
			err = errValue
		}
	}
	if q.connections > 0 {
		return idle, err
	}
	isInProgress, errCanary := s.canaries.InProgress(q.object)
	if isInProgress {
		return active, nil
	}
	return idle, errors.Join(err, errCanary)
}

// fail returns the status of a failed call, and logs it: validation errors and missing objects as warnings, transient
// errors at level debug.
func (s *Service) fail(ctx context.Context, ref *externalscaler.ScaledObjectRef, err error) error {
	code, level := codes.Unavailable, slog.LevelDebug
	switch {
	case errors.Is(err, errTrigger):
		code, level = codes.InvalidArgument, slog.LevelWarn
	case errors.Is(err, ErrNoObject):
		code, level = codes.NotFound, slog.LevelWarn
	}
	s.logger.LogAttrs(ctx, level, "call from KEDA failed", slog.String("namespace", ref.GetNamespace()),
		slog.String("scaledObject", ref.GetName()), slog.Any("error", err))
	return status.Errorf(code, "ScaledObject %s/%s: %v", ref.GetNamespace(), ref.GetName(), err)
}
