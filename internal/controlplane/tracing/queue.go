package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
)

// QueueSpan is the name of the span of a queued request.
const QueueSpan = "queue request"

// Names of the events of a QueueSpan.
const (
	// EventEndpointReady is when the interceptor published the first ready endpoint of the backend.
	EventEndpointReady = "endpoint ready"
	// EventReleased is when the request was released.
	EventReleased = "request released"
)

// Queue starts the span of a queued request. Its parent is in the metadata of ctx, that of the call by the proxy. There
// is no span if the proxy does not trace the request.
func (t *Tracer) Queue(ctx context.Context, wait extauthz.Wait) (end func(extauthz.Result)) {
	received, _ := metadata.FromIncomingContext(ctx)
	ctx = propagation.TraceContext{}.Extract(ctx, carrier(received))
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return func(extauthz.Result) {}
	}
	_, span := t.tracer.Start(ctx, QueueSpan, //nolint:spancheck // the returned function ends it
		trace.WithTimestamp(wait.Since), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(objectOf(wait.Workload.Namespace, wait.Workload.Name)...),
		trace.WithAttributes(
			attribute.String("kedify.cluster", wait.Cluster),
			attribute.String("kedify.proxy.address", wait.Proxy.String()),
			attribute.String("kedify.queue.reason", string(wait.Reason)),
			attribute.Int("kedify.queue.length", wait.Queued),
			attribute.Bool("kedify.queue.via_fallback", wait.IsViaFallback),
		))
	return func(result extauthz.Result) { endQueue(span, wait, result) } //nolint:spancheck // see above
}

// endQueue ends the span of a queued request.
func endQueue(span trace.Span, wait extauthz.Wait, result extauthz.Result) {
	span.SetAttributes(
		attribute.String("kedify.queue.outcome", result.Outcome),
		attribute.Float64("kedify.queue.seconds", time.Since(wait.Since).Seconds()),
	)
	if !result.IsReleased() {
		span.SetStatus(codes.Error, "the request left the queue without an endpoint: "+result.Outcome)
		span.End()
		return
	}
	span.SetAttributes(attribute.String("kedify.queue.released_by", string(result.Cause)))
	if result.Endpoints > 0 {
		span.SetAttributes(attribute.Int("kedify.queue.ready_endpoints", result.Endpoints))
		span.AddEvent(EventEndpointReady, trace.WithTimestamp(result.ReadySince))
	}
	span.AddEvent(EventReleased)
	span.End()
}

// carrier are the metadata of a call as a propagation.TextMapCarrier.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) == 1 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
