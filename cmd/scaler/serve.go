package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/canary"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// The names of the gRPC health services, beside that of the empty name, which is alive.
const (
	livenessService  = "liveness"
	readinessService = "readiness"
)

// source is where the figures come from.
type source interface {
	scaler.Reader
	// Run keeps the figures up to date until ctx ends.
	Run(ctx context.Context) error
	// Register adds the page of backends to mux.
	Register(mux *http.ServeMux)
	// Seeded returns a channel that is closed when every interceptor was asked for the first time.
	Seeded() <-chan struct{}
}

// serve runs the scaler until ctx ends and everything has stopped, or until a part fails. It logs
// to out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, err := server.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	config, err := kube.Config(chosen.kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return err
	}
	figures, err := newSource(chosen, config, logger)
	if err != nil {
		return err
	}
	return serveFrom(ctx, chosen, config, figures, logger)
}

// serveFrom is serve with the figures of a source.
func serveFrom(
	ctx context.Context, chosen settings, config *rest.Config, figures source, logger *slog.Logger,
) error {
	registry, err := server.NewRegistry(program, server.Version(version))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	p, err := newProcess(chosen, config, figures, registry, logger)
	if err != nil {
		return err
	}
	parts, err := p.parts(ctx, registry)
	if err != nil {
		return err
	}
	stopping := context.AfterFunc(ctx, func() { p.setReadiness(grpc_health_v1.HealthCheckResponse_NOT_SERVING) })
	defer stopping()
	logger.InfoContext(ctx, "starting", "version", server.Version(version))
	shutdown := server.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return server.Run(ctx, p.health, shutdown, logger, parts...)
}

// process is the scaler, put together.
type process struct {
	settings settings
	logger   *slog.Logger
	health   *server.Health
	probes   *health.Server
	figures  source
	canaries *canary.Watcher
	service  *scaler.Service
	server   *grpc.Server
}

// service is the name of the Service that KEDA reaches the scaler by.
const service = "keda-add-ons-http-external-scaler"

// newProcess puts the scaler together and starts nothing.
func newProcess(
	chosen settings, config *rest.Config, figures source, registry *prometheus.Registry, logger *slog.Logger,
) (*process, error) {
	metrics, err := scaler.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	options, err := scaler.ServerOptions(chosen.maxStreams, chosen.tls, metrics)
	if err != nil {
		return nil, err
	}
	p := &process{
		settings: chosen,
		logger:   logger,
		health:   server.NewHealth(service, func() []string { return []string{"the first figures of every interceptor"} }),
		probes:   health.NewServer(),
		figures:  figures,
		canaries: canary.New(func() (*rest.Config, error) { return config, nil }),
		server:   grpc.NewServer(options...),
	}
	p.probes.SetServingStatus(livenessService, grpc_health_v1.HealthCheckResponse_SERVING)
	p.setReadiness(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	p.service = scaler.NewService(figures, p.canaries, metrics, logger)
	p.service.Register(p.server)
	grpc_health_v1.RegisterHealthServer(p.server, p.probes)
	return p, nil
}

// setReadiness sets what the gRPC health service readiness says.
func (p *process) setReadiness(now grpc_health_v1.HealthCheckResponse_ServingStatus) {
	p.probes.SetServingStatus(readinessService, now)
}

// parts opens the ports that are open from the start and returns what is to run. The port for KEDA
// is opened later, see serveGRPC.
func (p *process) parts(ctx context.Context, registry *prometheus.Registry) ([]server.Part, error) {
	parts := []server.Part{
		{Name: "figures", Run: p.figures.Run},
		{Name: "canaries", Run: func(ctx context.Context) error { return p.canaries.Run(ctx, p.logger) }},
		{Name: "gRPC", Run: p.serveGRPC},
	}
	opened, err := server.Open(ctx, p.logger,
		server.Port{
			Name: "health", Address: p.settings.healthAddress, Flag: "--health-address", Handler: p.health,
		},
		server.Port{
			Name: "metrics", Address: p.settings.metricsAddress, Flag: "--metrics-address", Handler: p.inside(registry),
		})
	return append(parts, opened...), err
}

// inside serves those who look into the process, and at what it knows.
func (p *process) inside(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", server.MetricsHandler(registry))
	p.figures.Register(mux)
	if p.settings.profiling {
		server.AddProfiling(mux)
	}
	return mux
}

// serveGRPC waits for the first figures, then serves KEDA until ctx ends. KEDA asks another replica
// as long as there is no port here; from one without figures it would get nothing but errors.
func (p *process) serveGRPC(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.figures.Seeded():
	}
	listener, err := server.Listen(ctx, "gRPC", p.settings.grpcAddress, "--grpc-address")
	if err != nil {
		return err
	}
	p.logger.InfoContext(ctx, "listening", "port", "grpc", "address", listener.Addr().String())
	p.health.SetReady()
	p.setReadiness(grpc_health_v1.HealthCheckResponse_SERVING)
	return server.ServeGRPC(ctx, "gRPC", listener, p.server, p.service.Close)
}
