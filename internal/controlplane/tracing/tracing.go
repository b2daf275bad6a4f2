// Package tracing sends the spans of the interceptor to a collector, by OTLP over gRPC: a span of each queued request
// whose proxy traces it, and a trace of each weight.
//
// Spans are sent in the background. If the collector is slow or unreachable, they are dropped.
package tracing

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
)

// Service is the service.name of the spans.
const Service = "kedify-interceptor"

// shutdownTimeout is how long the remaining spans are sent at the end.
const shutdownTimeout = 3 * time.Second

// errCA is the error of a CA that contains no certificate.
var errCA = errors.New("no certificate in PEM")

// Options are the settings of a Tracer.
type Options struct {
	// Endpoint is the URL of the collector, http or https. CA are the CAs in PEM for https, empty for http.
	Endpoint, CA string
	// Version is that of the interceptor, and Namespace and Pod are those of this replica.
	Version, Namespace, Pod string
	// Logger receives failures of the exporter.
	Logger *slog.Logger
}

// Tracer creates spans. Make it with New.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracer. It does not wait for the collector.
func New(ctx context.Context, options Options) (*Tracer, error) {
	settings := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(options.Endpoint)}
	if options.CA != "" { // The exporter uses TLS then, also with http.
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(options.CA)) {
			return nil, fmt.Errorf("CA of the collector of traces: %w", errCA)
		}
		settings = append(settings, otlptracegrpc.WithTLSCredentials(credentials.NewClientTLSFromCert(pool, "")))
	}
	exporter, err := otlptracegrpc.New(ctx, settings...)
	if err != nil {
		return nil, fmt.Errorf("exporter of traces: %w", err)
	}
	// The SDK has one error handler for the process; its default writes lines that are not JSON.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		options.Logger.WarnContext(ctx, "cannot send spans; they are dropped", "endpoint", options.Endpoint, "error", err)
	}))
	return newTracer(options, sdktrace.NewBatchSpanProcessor(exporter)), nil
}

// newTracer returns a Tracer with a processor of spans. A weight is always traced, and a queued request if its proxy
// traces it.
func newTracer(options Options, processor sdktrace.SpanProcessor) *Tracer {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(processor),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", Service), attribute.String("service.version", options.Version),
			attribute.String("k8s.namespace.name", options.Namespace), attribute.String("k8s.pod.name", options.Pod),
		)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/kedify/argo-rollouts-plugin")}
}

// Run waits until ctx ends, and sends the remaining spans.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ending); err != nil {
		otel.Handle(err)
	}
	return nil
}

// objectOf returns the attributes of an HTTPScaledObject.
func objectOf(namespace, name string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("kedify.object.namespace", namespace), attribute.String("kedify.object.name", name),
	}
}
