package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/certificate"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/webhook"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// pollInterval is how often the agent checks the conditions for its start and its readiness.
const pollInterval = 500 * time.Millisecond

// serve runs the agent until ctx is canceled and everything has stopped, or until a component fails. It logs to
// out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, level, err := server.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(logger) // client-go logs to klog
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if err := metrics.Registry.Register(server.BuildInfo(program, server.Version(version))); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if err := kube.StreamLists(); err != nil {
		return err
	}
	config, err := kube.Config(chosen.kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return err
	}
	p, err := newProcess(chosen, config, logger)
	if err != nil {
		return err
	}
	components, err := p.components(ctx, level)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "starting", "version", server.Version(version))
	shutdown := server.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return server.Run(ctx, p.health, shutdown, logger, components...)
}

// process is the assembled agent.
type process struct {
	settings  settings
	logger    *slog.Logger
	health    *server.Health
	manager   manager.Manager
	rotator   *certificate.Rotator
	issuer    *certificate.Issuer // nil if proxies connect without TLS
	installed chan struct{}       // closed when the API server serves the watched kinds
}

// newProcess assembles the agent. It sends no request to the API server.
func newProcess(chosen settings, config *rest.Config, logger *slog.Logger) (*process, error) {
	mgr, err := newManager(chosen, config)
	if err != nil {
		return nil, err
	}
	options := client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}
	direct, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	p := &process{settings: chosen, logger: logger, manager: mgr, installed: make(chan struct{})}
	p.health = server.NewHealth("kedify-http-agent", p.pendingComponents)
	p.rotator = &certificate.Rotator{
		Client:  direct,
		Secret:  types.NamespacedName{Namespace: chosen.podNamespace, Name: chosen.webhookSecret},
		Webhook: chosen.webhookName, Names: chosen.certificateNames(), Now: time.Now, Logger: logger,
	}
	if chosen.interceptorTLSSecret != "" {
		p.issuer = &certificate.Issuer{
			Client:     direct,
			Secret:     types.NamespacedName{Namespace: chosen.podNamespace, Name: chosen.interceptorTLSSecret},
			IsExternal: chosen.externalTLSSecret, Services: interceptorServices(),
			Now: time.Now, Logger: logger, Changed: make(chan event.GenericEvent, 1),
		}
	}
	return p, nil
}

// components opens the ports and returns the components to run.
func (p *process) components(ctx context.Context, level *slog.LevelVar) ([]server.Component, error) {
	components := []server.Component{
		{Name: "controllers", Run: p.runControllers},
		{Name: "readiness", Run: p.awaitReadiness},
	}
	if p.issuer != nil {
		components = append(components, server.Component{Name: "interceptor certificate", Run: p.issuer.Run})
	}
	metricsHandler := server.MetricsHandler(metrics.Registry, level, p.logger)
	ports := []server.Port{
		{Name: "health", Address: p.settings.healthAddress, Flag: "--health-address", Handler: p.health},
		{Name: "metrics", Address: p.settings.metricsAddress, Flag: "--metrics-address", Handler: metricsHandler},
	}
	if p.settings.webhookAddress != "" {
		hook, err := webhook.NewServer(p.settings.scalerAddress, p.settings.namespaces, p.manager.GetLogger())
		if err != nil {
			return nil, err
		}
		secure := &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: p.rotator.Certificate,
		}
		components = append(components, server.Component{Name: "certificate", Run: p.rotator.Run})
		ports = append(ports, server.Port{
			Name: "webhook", Address: p.settings.webhookAddress, Flag: "--webhook-address", Handler: hook, TLS: secure,
		})
	}
	opened, err := server.Open(ctx, p.logger, ports...)
	return append(components, opened...), err
}

// runControllers waits until the API server serves the watched kinds, then runs the controllers until ctx is
// canceled.
func (p *process) runControllers(ctx context.Context) error {
	kindsServed := func(context.Context) (bool, error) { return len(p.missingKinds()) == 0, nil }
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, kindsServed); err != nil {
		return nil //nolint:nilerr // the only error is a canceled context
	}
	statusSchema, err := controllers.NewStatusSchema(p.manager)
	if err != nil {
		return err
	}
	reconciler := &controllers.ScaledObjectReconciler{
		Client:        p.manager.GetClient(),
		APIReader:     p.manager.GetAPIReader(),
		Events:        p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:           time.Now,
		ScalerAddress: p.settings.scalerAddress,
		StatusSchema:  statusSchema,
		ReadsServices: p.settings.accessesRoutes(),
	}
	if err := reconciler.SetupWithManager(ctx, p.manager); err != nil {
		return err
	}
	routers, err := controllers.NewOptionalRouters(p.manager, p.settings.namespaces)
	if err != nil {
		return err
	}
	if err := p.addProxyController(statusSchema, routers); err != nil {
		return err
	}
	if err := p.addAutowireController(statusSchema, routers); err != nil {
		return err
	}
	close(p.installed)
	return p.manager.Start(ctx)
}

// addAutowireController adds the autowire controller, unless the agent neither wires nor restores backends.
func (p *process) addAutowireController(
	statusSchema *crd.Published, routers *controllers.OptionalRouters,
) error {
	if !p.settings.accessesRoutes() {
		return nil
	}
	autowirer := &controllers.AutowireReconciler{
		Client:          p.manager.GetClient(),
		APIReader:       p.manager.GetAPIReader(),
		Events:          p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:             time.Now,
		ScalerAddress:   p.settings.scalerAddress,
		CoolDown:        p.settings.autowireCoolDown,
		Disabled:        !p.settings.autowire,
		SharedNamespace: p.settings.podNamespace,
		Namespaces:      p.settings.namespaces,
		ReadsGrantsOnly: !p.settings.referenceGrants,
		Routers:         routers,
		StatusSchema:    statusSchema,
	}
	return autowirer.SetupWithManager(p.manager)
}

// addProxyController adds the proxy controller, unless it is disabled.
func (p *process) addProxyController(
	statusSchema *crd.Published, routers *controllers.OptionalRouters,
) error {
	if !p.settings.installProxies {
		return nil
	}
	chosen, err := p.settings.proxySettings()
	if err != nil {
		return err
	}
	routes, err := controllers.NewInterceptorRoutes(p.manager, p.settings.namespaces)
	if err != nil {
		return err
	}
	proxies := &controllers.ProxyReconciler{
		Client:       p.manager.GetClient(),
		APIReader:    p.manager.GetAPIReader(),
		Events:       p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:          time.Now,
		Settings:     chosen,
		RemovalDelay: p.settings.proxyRemovalDelay,
		Namespaces:   p.settings.namespaces,
		IgnoreRoutes: !p.settings.accessesRoutes(),
		StatusSchema: statusSchema,

		Routers: routers,

		InterceptorRoutes: routes, ScalerAddress: p.settings.scalerAddress,
	}
	if p.issuer != nil {
		proxies.CA, proxies.CAChanged = p.issuer.CA, p.issuer.Changed
	}
	return proxies.SetupWithManager(p.manager)
}

// awaitReadiness marks the agent as ready once its cache is synced and the webhook has a certificate.
func (p *process) awaitReadiness(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.installed:
	}
	synced := p.manager.GetCache().WaitForCacheSync(ctx)
	ready := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		return p.settings.webhookAddress == "" || p.hasCertificate(), nil
	})
	if synced && ready == nil {
		p.health.SetReady()
	}
	<-ctx.Done()
	return nil
}

// hasCertificate reports whether the webhook has a certificate.
func (p *process) hasCertificate() bool {
	_, err := p.rotator.Certificate(nil)
	return err == nil
}
