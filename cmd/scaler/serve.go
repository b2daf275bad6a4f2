package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/canary"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// Names of the gRPC health services. The service with the empty name is always serving.
const (
	livenessService  = "liveness"
	readinessService = "readiness"
)

// demandSource is a scaler.Reader that has to run, such as a demandclient.Client.
type demandSource interface {
	scaler.Reader
	// Run keeps the demand up to date until ctx ends.
	Run(ctx context.Context) error
	// Register adds the page of backends to mux.
	Register(mux *http.ServeMux)
	// Seeded returns a channel that is closed after the first request to every interceptor.
	Seeded() <-chan struct{}
}

// serve runs the scaler until ctx ends and all components have stopped, or until one fails. It logs to out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, level, err := server.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	config, err := kube.Config(chosen.kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return err
	}
	demand, err := demandclient.NewClient(demandclient.Options{
		Namespace: chosen.interceptorNamespace, CA: chosen.interceptorCA, TokenFile: chosen.interceptorToken,
		API: config, Logger: logger,
	})
	if err != nil {
		return err
	}
	return serveFrom(ctx, chosen, config, demand, logger, level)
}

// serveFrom is serve with a given demandSource.
func serveFrom(
	ctx context.Context, chosen settings, config *rest.Config, demand demandSource, logger *slog.Logger,
	level *slog.LevelVar,
) error {
	registry, err := server.NewRegistry(program, server.Version(version))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	p, err := newProcess(chosen, config, demand, registry, logger)
	if err != nil {
		return err
	}
	components, err := p.components(ctx, registry, level)
	if err != nil {
		return err
	}
	stopping := context.AfterFunc(ctx, func() { p.setReadiness(grpc_health_v1.HealthCheckResponse_NOT_SERVING) })
	defer stopping()
	logger.InfoContext(ctx, "starting", "version", server.Version(version))
	shutdown := server.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return server.Run(ctx, p.health, shutdown, logger, components...)
}

// process contains the components of the scaler.
type process struct {
	settings settings
	logger   *slog.Logger
	health   *server.Health
	probes   *health.Server
	demand   demandSource
	canaries *canary.Watcher
	service  *scaler.Service
	server   *grpcserver.Server
}

// service is the name of the Service by which KEDA reaches the scaler.
const service = "keda-add-ons-http-external-scaler"

// newProcess assembles the scaler without starting it.
func newProcess(
	chosen settings, config *rest.Config, demand demandSource, registry *prometheus.Registry, logger *slog.Logger,
) (*process, error) {
	metrics, err := scaler.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	if err := chosen.tls.Check(); err != nil { // before the port is open
		return nil, err
	}
	p := &process{
		settings: chosen,
		logger:   logger,
		health:   server.NewHealth(service, func() []string { return []string{"the first reports of all interceptors"} }),
		probes:   health.NewServer(),
		demand:   demand,
		canaries: canary.New(func() (*rest.Config, error) { return config, nil }),
		server:   scaler.NewServer(chosen.maxStreams, metrics, logger),
	}
	p.probes.SetServingStatus(livenessService, grpc_health_v1.HealthCheckResponse_SERVING)
	p.setReadiness(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	p.service = scaler.NewService(demand, p.canaries, metrics, logger)
	p.service.Register(p.server)
	grpc_health_v1.RegisterHealthServer(p.server, p.probes)
	return p, nil
}

// setReadiness sets the status of the gRPC health service readiness.
func (p *process) setReadiness(now grpc_health_v1.HealthCheckResponse_ServingStatus) {
	p.probes.SetServingStatus(readinessService, now)
}

// components opens the health and metrics ports, and returns the components to run. serveGRPC opens the port for KEDA.
func (p *process) components(
	ctx context.Context, registry *prometheus.Registry, level *slog.LevelVar,
) ([]server.Component, error) {
	components := []server.Component{
		{Name: "demand", Run: p.demand.Run},
		{Name: "canaries", Run: func(ctx context.Context) error { return p.canaries.Run(ctx, p.logger) }},
		{Name: "gRPC", Run: p.serveGRPC},
	}
	opened, err := server.Open(ctx, p.logger,
		server.Port{
			Name: "health", Address: p.settings.healthAddress, Flag: "--health-address", Handler: p.health,
		},
		server.Port{
			Name: "metrics", Address: p.settings.metricsAddress, Flag: "--metrics-address", Handler: p.metricsHandler(registry, level),
		})
	return append(components, opened...), err
}

// metricsHandler serves the metrics port: Prometheus metrics, the page of backends, and profiles if enabled.
func (p *process) metricsHandler(registry *prometheus.Registry, level *slog.LevelVar) http.Handler {
	mux := http.NewServeMux()
	metrics := server.MetricsHandler(registry, level, p.logger)
	mux.Handle("/metrics", metrics)
	mux.Handle(server.LogLevelPath, metrics)
	p.demand.Register(mux)
	if p.settings.profiling {
		server.AddProfiling(mux)
	}
	return mux
}

// serveGRPC waits for the first reports, then serves KEDA until ctx ends. While the port is closed, KEDA uses another
// replica; from a replica without reports it would only get errors.
func (p *process) serveGRPC(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.demand.Seeded():
	}
	listener, err := server.Listen(ctx, "gRPC", p.settings.grpcAddress, "--grpc-address")
	if err != nil {
		return err
	}
	p.logger.InfoContext(ctx, "listening", "port", "grpc", "address", listener.Addr().String())
	p.health.SetReady()
	p.setReadiness(grpc_health_v1.HealthCheckResponse_SERVING)
	listener = p.settings.tls.Listener(server.LimitConnections(listener, scaler.ConnectionLimits(), p.logger))
	return server.ServeGRPC(ctx, "gRPC", listener, p.server, p.service.Close)
}
