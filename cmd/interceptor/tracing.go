package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/tracing"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// addTracingFlags adds the flags of traces.
func (s *settings) addTracingFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.translate.Tracing.Endpoint, "tracing-endpoint", "",
		"`URL` of a collector of traces (OTLP over gRPC), http or https, such as "+
			"http://otel-collector.observability.svc.cluster.local:4317; empty to send no spans")
	flags.Float64Var(&s.translate.Tracing.Sampling, "tracing-sampling", translate.DefaultOptions().Tracing.Sampling,
		"`ratio`, from 0 to 1, of the requests without a traceparent that are traced; for others, its sampled flag decides")
	flags.StringVar(&s.tracingCAFile, "tracing-ca-file", "",
		"`file` with the CAs, in PEM, of the certificate of a collector with https")
}

// checkTracing validates the settings of traces, and reads the CAs of the collector.
func (s *settings) checkTracing() error {
	if s.tracingCAFile != "" {
		text, err := os.ReadFile(s.tracingCAFile)
		if err != nil {
			return fmt.Errorf("%w: --tracing-ca-file: %w: name a readable file", errSetting, err)
		}
		s.translate.Tracing.CA = string(text)
	}
	if err := s.translate.Tracing.Check(); err != nil {
		return fmt.Errorf("%w: %w", errSetting, err)
	}
	return nil
}

// newTracer returns the tracer, nil if no spans are sent.
func newTracer(ctx context.Context, chosen settings, logger *slog.Logger) (*tracing.Tracer, error) {
	if !chosen.translate.Tracing.IsEnabled() {
		return nil, nil //nolint:nilnil // no tracer is not an error
	}
	options := tracing.Options{
		Endpoint: chosen.translate.Tracing.Endpoint,
		Version:  server.Version(version), Namespace: chosen.podNamespace, Pod: chosen.podName, Logger: logger,
	}
	if chosen.translate.Tracing.IsSecure() {
		options.CA = chosen.translate.Tracing.CA
	}
	return tracing.New(ctx, options)
}

// traceQueue makes the spans of queued requests part of the options, unless tracer is nil.
func traceQueue(options extauthz.Options, tracer *tracing.Tracer) extauthz.Options {
	if tracer != nil {
		options.Trace = tracer.Queue
	}
	return options
}

// traceWeights makes the traces of weights part of the options, unless tracer is nil.
func traceWeights(options status.Options, tracer *tracing.Tracer) status.Options {
	if tracer != nil {
		options.TraceWeight = tracer.Weight
	}
	return options
}
