package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/claims"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/access"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/election"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/tracing"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// membershipHint is the fix in the error for a proxy that belongs to no fleet.
const membershipHint = "the proxy must connect from the address of an endpoint of Service " + resolve.ProxyService +
	", in a namespace that --namespaces allows. NAT, a mesh or a port-forward changes that address. " +
	"List the endpoints: kubectl get endpointslices -A -l kubernetes.io/service-name=" + resolve.ProxyService

// serve runs the interceptor until ctx ends and all components have stopped, or until a component fails. It logs to
// out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, level, err := server.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(logger) // client-go logs through klog.
	registry, err := server.NewRegistry(program, server.Version(version))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	api, err := newClients(chosen.kubeconfig)
	if err != nil {
		return err
	}
	tracer, err := newTracer(ctx, chosen, logger)
	if err != nil {
		return err
	}
	p, err := newProcess(chosen, api, registry, tracer, logger)
	if err != nil {
		return err
	}
	components, err := p.components(ctx, registry, level)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "starting", "version", server.Version(version), "pod",
		chosen.podNamespace+"/"+chosen.podName)
	shutdown := server.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return server.Run(ctx, p.health, shutdown, logger, components...)
}

// resolve returns the options of package resolve.
func (s *settings) resolve() resolve.Options {
	return resolve.Options{
		SharedFleet: model.Fleet(s.podNamespace), MaxObjects: s.maxObjects, MaxHosts: s.maxHosts,
		NeedTokens: s.proxyAuthentication == httpv1alpha1.ProxyAuthenticationStrict,
	}
}

// process has the components of the interceptor.
type process struct {
	settings settings
	logger   *slog.Logger
	health   *server.Health
	loop     *ingest.Loop
	xds      *xds.Server
	sink     *sink.Sink
	checks   *extauthz.Server
	reporter *status.Reporter
	claims   *claims.Resolver
	security security
	hub      *dashboard.Hub // nil without the live page
	users    *access.Verifier
	tracer   *tracing.Tracer // nil if no spans are sent
}

// newProcess creates the components of the interceptor and starts none.
func newProcess(
	chosen settings, api clients, registry *prometheus.Registry, tracer *tracing.Tracer, logger *slog.Logger,
) (*process, error) {
	counted, err := xds.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	var p *process                // It is set before the first request for demand.
	var reporter *status.Reporter // It is set before the first call of Notify.
	answers, err := extauthz.New(traceQueue(extauthz.Options{
		Limits: chosen.limits, Registerer: registry,
		Notify: func(object model.Key, reason holding.Reason) {
			reporter.EmitEvent(object, controlplane.EventFor(reason))
		},
	}, tracer))
	if err != nil {
		return nil, err
	}
	holding := &controlplane.Holding{Server: answers, Timeout: chosen.coldStartTimeout}
	secured := newSecurity(chosen, api, logger)
	discovery := xds.NewServer(secured.discovery(xds.Options{
		Grace: chosen.clusterGrace, MaxStreams: chosen.maxStreams, Metrics: counted, Logger: logger, Callbacks: holding,
		MembershipHint:   membershipHint,
		DrainedListeners: translate.ClientListeners(),
		DrainDelay:       xds.DefaultDrainDelay,
		IPv6Listeners:    translate.IPv6Listeners(),
	}))
	demand := func(ctx context.Context, send func([]byte) error) error { return p.sink.StreamReports(ctx, true, send) }
	if reporter, err = newReporter(chosen, api, discovery, demand, secured, registry, tracer, logger); err != nil {
		return nil, err
	}
	p = &process{
		settings: chosen, logger: logger, xds: discovery, checks: answers, reporter: reporter, security: secured,
		tracer: tracer,
	}
	if err := p.addLoop(api, registry, holding); err != nil {
		return nil, err
	}
	p.health = server.NewHealth(proxyService, p.loop.Waiting)
	return p, nil
}

// newReporter returns the reporter of the states that the proxies of a discovery server have ACKed. demand is the demand
// for other replicas.
func newReporter(
	chosen settings, api clients, discovery *xds.Server, demand peers.DemandSource, secured security,
	registry *prometheus.Registry, tracer *tracing.Tracer, logger *slog.Logger,
) (*status.Reporter, error) {
	return status.New(traceWeights(secured.peers(status.Options{
		Client: api.statusClient(logger),
		Source: controlplane.ProxyStates{Server: discovery},
		Elect: election.Elector{
			Client: api.leases, Namespace: chosen.podNamespace, Identity: chosen.podName,
			Logger: logger,
		}.Run,
		Replica:    chosen.podName,
		Demand:     demand,
		Registerer: registry,
		Logger:     logger,
	}), tracer))
}

// addLoop adds the metric sink, and the loop that publishes to the other components and to observer.
func (p *process) addLoop(api clients, registry *prometheus.Registry, observer ingest.Observer) (err error) {
	p.sink, err = sink.New(p.security.sink(sink.Options{
		Replica: p.settings.podName, Now: time.Now, MaxStreams: p.settings.maxStreams, Hint: membershipHint,
		MaxHistograms: p.settings.maxHistograms,
		Queued:        p.checks.Counts,
		Registerer:    registry, Logger: p.logger,
	}))
	if err != nil {
		return err
	}
	publisher := controlplane.Publisher{Server: p.xds, Sink: p.sink, Checks: p.checks}
	p.claims = claims.New(claims.Options{
		Pod: api.pod, IsConnected: p.xds.IsConnected, Assign: publisher.Assign, Logger: p.logger,
	})
	observers := []ingest.Observer{p.reporter, controlplane.DemandObserver{Sink: p.sink}, observer}
	if p.addDashboard(api); p.hub != nil {
		observers = append(observers, p.hub)
	}
	p.settings.translate.IPv6 = true // The discovery server sends IPv6Listeners to proxies with an IPv6 address only.
	p.loop, err = ingest.New(p.security.ingest(ingest.Options{
		Sources:    api.sources(p.settings),
		Resolve:    p.settings.resolve(),
		Translate:  p.settings.translate,
		Publisher:  controlplane.ClaimedPublisher{Publisher: publisher, Claims: p.claims},
		Observers:  observers,
		Interval:   p.settings.batchInterval,
		Registerer: registry,
		Logger:     p.logger,
	}))
	return err
}

// addDashboard adds the live page, unless it is off.
func (p *process) addDashboard(api clients) {
	if p.settings.dashboardAddress == "" {
		return
	}
	p.hub = dashboard.New(dashboard.Options{
		Replica: p.settings.podName, Now: time.Now, Changes: p.sink.Changes, WatchReplica: p.reporter.WatchDemand,
		Workload: dashboard.Reader{Get: api.get}.Read, Logger: p.logger,
	})
	p.users = access.New(access.Reviewer{Token: api.reviewToken, Access: api.reviewAccess, Now: time.Now})
}

// components opens the ports that are open from the start, and returns the components to run. The xDS port is opened
// later, see serveXDS.
func (p *process) components(
	ctx context.Context, registry *prometheus.Registry, level *slog.LevelVar,
) ([]server.Component, error) {
	components := []server.Component{
		{Name: "ingest", Run: p.loop.Run},
		{Name: "claims", Run: p.claims.Run},
		{Name: "xds", Run: p.serveXDS},
		{Name: "metric sink", Run: p.serveMetricSink},
		{Name: "idle memory", Run: server.ReturnIdleMemory},
		{Name: "status", Run: func(ctx context.Context) error { return p.reporter.Run(ctx, p.loop.Observed()) }},
	}
	if p.tracer != nil {
		components = append(components, server.Component{Name: "tracing", Run: p.tracer.Run})
	}
	var page http.Handler
	ports := []server.Port{
		{Name: "health", Address: p.settings.proxyAddress, Flag: "--proxy-address", Handler: p.health},
		{
			Name: "metrics", Address: p.settings.metricsAddress, Flag: "--metrics-address",
			Handler: server.MetricsHandler(registry, level, p.logger),
		},
	}
	if p.hub != nil {
		components = append(components, server.Component{Name: "dashboard", Run: p.hub.Run})
		page = dashboard.NewWithTokens(p.hub, p.users)
		ports = append(ports, server.Port{
			Name: "dashboard", Address: p.settings.dashboardAddress, Flag: "--dashboard-address",
			Handler: dashboard.NewLocal(p.hub), Limits: dashboardConnections(),
		})
	}
	admin := server.Port{Name: "admin", Address: p.settings.adminAddress, Flag: "--admin-address", Handler: p.admin()}
	opened, err := server.Open(ctx, p.logger,
		append(ports, p.security.admin(admin, p.settings.podNamespace, page, p.logger))...)
	return append(components, opened...), err
}

// dashboardConnections are the limits of the local port of the live page: all its clients have the same address.
func dashboardConnections() server.ConnectionLimits {
	const connections = 2 * dashboard.MaxViewers
	return server.ConnectionLimits{Total: connections, PerAddress: connections}
}

// admin returns the handler of the admin server.
func (p *process) admin() http.Handler {
	mux := http.NewServeMux()
	p.sink.Register(mux)
	if p.settings.profiling {
		server.AddProfiling(mux)
	}
	return mux
}

// serveMetricSink waits until the proxies of all fleets are known, then receives their metrics until ctx ends.
func (p *process) serveMetricSink(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.loop.Seeded():
	}
	listener, err := p.security.listen(ctx, "metrics of proxies", p.settings.sinkAddress, "--metric-sink-address",
		p.isReporter, p.logger)
	if err != nil {
		return err
	}
	p.logger.InfoContext(ctx, "listening", "port", "metric sink", "address", listener.Addr().String())
	return p.sink.Serve(ctx, listener)
}

// serveXDS waits for the first complete configuration, then serves proxies and the other replicas until ctx ends. A
// proxy that cannot connect tries another replica or keeps its configuration; with an empty configuration it would
// remove all its routes.
func (p *process) serveXDS(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.loop.Seeded():
	}
	listener, err := p.security.listen(ctx, "xDS", p.settings.xdsAddress, "--xds-address", p.isKnown, p.logger)
	if err != nil {
		return err
	}
	grpcServer := grpcserver.New(grpcserver.Options{
		AccountOf: p.accountOf, MaxStreams: p.settings.limits.Proxy + spareStreams, Logger: p.logger,
	})
	p.xds.Register(grpcServer)
	p.checks.Register(grpcServer) //nolint:contextcheck // the call has the context of its stream
	p.reporter.Register(grpcServer)
	p.logger.InfoContext(ctx, "listening", "port", "xds", "address", listener.Addr().String())
	p.health.SetReady()
	debug.FreeOSMemory() // The first lists leave several times as much garbage as live heap.
	return server.ServeGRPC(ctx, "xDS", listener, grpcServer, func() {
		p.checks.Close()
		p.xds.Close()
	})
}

// spareStreams is how many streams an address may have in addition to those of queued requests.
const spareStreams = 200

// isReporter returns whether an address that connects may send metrics.
func (p *process) isReporter(address netip.Addr) bool {
	p.claims.Connecting(address)
	return p.sink.IsKnown(address)
}

// isKnown reports whether an address that connects is that of a proxy or of a replica.
func (p *process) isKnown(address netip.Addr) bool {
	p.claims.Connecting(address)
	return len(p.xds.FleetsOf(address)) > 0 || p.reporter.IsReplica(address)
}

// accountOf returns the fleet of an address. An address of several fleets is that of none.
func (p *process) accountOf(address netip.Addr) string {
	if fleets := p.xds.FleetsOf(address); len(fleets) == 1 {
		return fleets[0]
	}
	return ""
}
