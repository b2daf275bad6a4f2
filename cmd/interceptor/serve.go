package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/lifecycle"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
	"github.com/kedify/argo-rollouts-plugin/internal/telemetry"
	"github.com/kedify/argo-rollouts-plugin/internal/wiring"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// streamDrain is how long proxies may take to notice that their stream ended.
const streamDrain = 5 * time.Second

// serve runs the interceptor until ctx ends and everything has stopped, or until a part fails. It logs to out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, err := telemetry.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(logger) // client-go logs through klog.
	registry, err := telemetry.NewRegistry(program, programVersion())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	api, err := newClients(chosen.kubeconfig)
	if err != nil {
		return err
	}
	p, err := newProcess(chosen, api, registry, logger)
	if err != nil {
		return err
	}
	parts, err := p.parts(ctx, registry)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "starting", "version", programVersion(), "pod", chosen.podNamespace+"/"+chosen.podName)
	shutdown := lifecycle.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return lifecycle.Run(ctx, p.health, shutdown, logger, parts...)
}

// process is the interceptor, put together.
type process struct {
	settings  settings
	logger    *slog.Logger
	health    *lifecycle.Health
	loop      *ingest.Loop
	xds       *xds.Server
	reporting *status.Reporting
}

// newProcess puts the interceptor together and starts nothing.
func newProcess(chosen settings, api clients, registry *prometheus.Registry, logger *slog.Logger) (*process, error) {
	observer, err := xds.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	server := xds.NewServer(xds.WithGrace(chosen.clusterGrace), xds.WithMaxStreams(chosen.maxStreams), xds.WithObserver(observer), xds.WithLogger(logger))
	reporting, err := status.New(status.Options{
		Client:      api.statusClient(),
		Source:      wiring.ProxyStates{Server: server},
		Elector:     status.Election{Leases: status.NewLeases(api.leases), Namespace: chosen.podNamespace, Identity: chosen.podName, Logger: logger},
		Replica:     chosen.podName,
		SharedFleet: chosen.fleet == fleetShared,
		Now:         time.Now,
		Registerer:  registry,
		Logger:      logger,
	})
	if err != nil {
		return nil, err
	}
	loop, err := ingest.New(ingest.Options{
		Sources:    api.sources(chosen),
		Translate:  chosen.translate,
		Publisher:  wiring.Publisher{Server: server},
		Reporter:   wiring.Reporter{Reporting: reporting},
		Interval:   chosen.batchInterval,
		Registerer: registry,
		Logger:     logger,
	})
	if err != nil {
		return nil, err
	}
	return &process{
		settings:  chosen,
		logger:    logger,
		health:    lifecycle.NewHealth(loop.Waiting),
		loop:      loop,
		xds:       server,
		reporting: reporting,
	}, nil
}

// parts opens the ports that are open from the start and returns what is to run. The port for proxies is opened later, see serveXDS.
func (p *process) parts(ctx context.Context, registry *prometheus.Registry) (parts []lifecycle.Part, err error) {
	parts = []lifecycle.Part{
		{Name: "ingest", Run: p.loop.Run},
		{Name: "xds", Run: p.serveXDS},
		{Name: "status", Run: func(ctx context.Context) error { return p.reporting.Run(ctx, p.loop.Observed()) }},
	}
	var opened []net.Listener
	defer func() {
		if err == nil {
			return
		}
		for _, listener := range opened {
			err = errors.Join(err, listener.Close())
		}
	}()
	for _, port := range []struct {
		name, address, flag string
		handler             http.Handler
	}{
		{"health", p.settings.proxyAddress, "--proxy-address", p.health},
		{"admin", p.settings.adminAddress, "--admin-address", p.admin()},
		{"metrics", p.settings.metricsAddress, "--metrics-address", telemetry.MetricsHandler(registry)},
	} {
		listener, err := lifecycle.Listen(ctx, port.name, port.address, port.flag)
		if err != nil {
			return nil, err
		}
		opened = append(opened, listener)
		p.logger.InfoContext(ctx, "listening", "port", port.name, "address", listener.Addr().String())
		parts = append(parts, lifecycle.Part{Name: port.name, Run: func(ctx context.Context) error {
			return lifecycle.ServeHTTP(ctx, listener, port.handler, p.logger)
		}})
	}
	return parts, nil
}

// admin serves the other replicas, and people who look into the process.
func (p *process) admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(status.AcksPath, p.reporting.Handler())
	if p.settings.profiling {
		telemetry.AddProfiling(mux)
	}
	return mux
}

// serveXDS waits until there is something to serve, then serves proxies until ctx ends. A proxy that finds no port tries another replica or keeps what it
// has; one that found an empty configuration would forget all its routes.
func (p *process) serveXDS(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.loop.Seeded():
	}
	listener, err := lifecycle.Listen(ctx, "xDS", p.settings.xdsAddress, "--xds-address")
	if err != nil {
		return err
	}
	server := grpc.NewServer(xds.GRPCOptions()...)
	p.xds.Register(server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	p.logger.InfoContext(ctx, "listening", "port", "xds", "address", listener.Addr().String())
	p.health.SetReady()
	debug.FreeOSMemory() // The first lists have left several times as much garbage as is kept.
	select {
	case err := <-failed:
		return fmt.Errorf("serve xDS on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	p.xds.Close()
	atOnce := time.AfterFunc(streamDrain, server.Stop)
	defer atOnce.Stop()
	server.GracefulStop()
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve xDS on %s: %w", listener.Addr(), err)
	}
	return nil
}
