package scaler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
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

// NewService returns a Service that answers from reader and canaries, and tells observer and logger
// of what it did.
func NewService(reader Reader, canaries Canaries, observer Observer, logger *slog.Logger) *Service {
	return &Service{
		reader: reader, canaries: canaries, observer: observer, logger: logger,
		closing: make(chan struct{}),
	}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(registrar grpc.ServiceRegistrar) {
	externalscaler.RegisterExternalScalerServer(registrar, s)
}

// Close ends every stream, and each that comes later, as done: KEDA then looks for another replica
// in 2 s. It returns at once and may be called again.
func (s *Service) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// IsActive says whether the workload should have replicas: the metric is above its activation
// value, a request is held, or a canary is under way. What of it is proven counts, whatever is not
// known beside.
func (s *Service) IsActive(
	ctx context.Context, ref *externalscaler.ScaledObjectRef,
) (*externalscaler.IsActiveResponse, error) {
	t, err := parse(ref)
	if err != nil {
		return nil, s.refuse(ctx, ref, err)
	}
	found, err := s.activity(t)
	if err != nil {
		return nil, s.refuse(ctx, ref, err)
	}
	return &externalscaler.IsActiveResponse{Result: found != idle}, nil
}

// GetMetricSpec names the trigger's metric and target, which the metadata alone decide.
func (s *Service) GetMetricSpec(
	ctx context.Context, ref *externalscaler.ScaledObjectRef,
) (*externalscaler.GetMetricSpecResponse, error) {
	t, err := parse(ref)
	if err != nil {
		return nil, s.refuse(ctx, ref, err)
	}
	spec := &externalscaler.MetricSpec{MetricName: t.metric(), TargetSizeFloat: float64(t.TargetValue)}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{spec}}, nil
}

// GetMetrics tells the trigger's metric. A figure that is not known in full is an error.
func (s *Service) GetMetrics(
	ctx context.Context, request *externalscaler.GetMetricsRequest,
) (*externalscaler.GetMetricsResponse, error) {
	ref := request.GetScaledObjectRef()
	t, err := parse(ref)
	if err != nil {
		return nil, s.refuse(ctx, ref, err)
	}
	// A HorizontalPodAutoscaler may ask once more for the metric that a trigger had before it was
	// edited.
	if asked := request.GetMetricName(); asked != t.metric() {
		err = fmt.Errorf("%w: the metric is %s, %q was asked for", errTrigger, t.metric(), asked)
		return nil, s.refuse(ctx, ref, err)
	}
	figure, err := s.demand(t)
	if err != nil {
		return nil, s.refuse(ctx, ref, err)
	}
	value := &externalscaler.MetricValue{MetricName: t.metric(), MetricValueFloat: t.value(figure)}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{value}}, nil
}

// demand reads the trigger's figure.
func (s *Service) demand(t asked) (Figure, error) {
	figure, err := s.reader.Demand(t.object)
	if err == nil && t.Metric == trigger.MetricRequestRate {
		err = figure.RateError
	}
	return figure, err
}

// activity is why a workload should have replicas.
type activity int

const (
	idle   activity = iota
	active          // there is demand, or a canary is under way
	held            // requests wait for a first replica
)

// activity finds out why the trigger's workload should have replicas. An error says that nothing
// speaks for it, but that not all is known.
func (s *Service) activity(t asked) (activity, error) {
	figure, err := s.demand(t)
	switch {
	case figure.Held > 0:
		return held, nil
	case t.value(figure) > t.ActivationTargetValue:
		return active, nil
	}
	underWay, errCanary := s.canaries.UnderWay(t.object)
	if underWay {
		return active, nil
	}
	return idle, errors.Join(err, errCanary)
}

// refuse makes the status of a call that failed, and logs it. Mistakes of a user are told apart
// from what passes by itself.
func (s *Service) refuse(ctx context.Context, ref *externalscaler.ScaledObjectRef, err error) error {
	code, level := codes.Unavailable, slog.LevelDebug
	switch {
	case errors.Is(err, errTrigger):
		code, level = codes.InvalidArgument, slog.LevelWarn
	case errors.Is(err, ErrNoObject):
		code, level = codes.NotFound, slog.LevelWarn
	}
	s.logger.LogAttrs(ctx, level, "cannot answer KEDA", slog.String("namespace", ref.GetNamespace()),
		slog.String("scaledObject", ref.GetName()), slog.Any("error", err))
	return status.Errorf(code, "ScaledObject %s/%s: %v", ref.GetNamespace(), ref.GetName(), err)
}
