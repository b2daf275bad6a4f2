package scaler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
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

// GetMetricSpec returns the trigger's metric and target, which depend only on the metadata.
func (s *Service) GetMetricSpec(
	ctx context.Context, ref *externalscaler.ScaledObjectRef,
) (*externalscaler.GetMetricSpecResponse, error) {
	q, err := parse(ref)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	spec := &externalscaler.MetricSpec{MetricName: q.metric(), TargetSizeFloat: float64(q.TargetValue)}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{spec}}, nil
}

// GetMetrics returns the value of the trigger's metric. A lower bound is an error.
func (s *Service) GetMetrics(
	ctx context.Context, request *externalscaler.GetMetricsRequest,
) (*externalscaler.GetMetricsResponse, error) {
	ref := request.GetScaledObjectRef()
	q, err := parse(ref)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	// After an edit of the trigger, a HorizontalPodAutoscaler may request the previous metric once more.
	if name := request.GetMetricName(); name != q.metric() {
		err = fmt.Errorf("%w: metric %q requested, but the trigger has %s", errTrigger, name, q.metric())
		return nil, s.fail(ctx, ref, err)
	}
	demand, err := s.demand(q)
	if err != nil {
		return nil, s.fail(ctx, ref, err)
	}
	value := &externalscaler.MetricValue{MetricName: q.metric(), MetricValueFloat: q.value(demand)}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{value}}, nil
}

// demand reads the demand for the trigger's object. The error is also set if only the request rate is unknown and the
// trigger uses it.
func (s *Service) demand(q query) (metrics.Value, error) {
	demand, err := s.reader.Demand(model.Key(q.object))
	if err == nil && q.Metric == trigger.MetricRequestRate {
		err = demand.RateError
	}
	return demand, err
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
	switch {
	case demand.Queued > 0:
		return queued, nil
	case q.value(demand) > q.ActivationTargetValue, q.keepsActive(demand):
		return active, nil
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
