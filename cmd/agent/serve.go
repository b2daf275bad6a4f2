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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/webhook"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/webhook/certificate"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// lookEvery is how often is looked whether what the agent waits for is there.
const lookEvery = 500 * time.Millisecond

// serve runs the agent until ctx ends and everything has stopped, or until a part fails. It logs to
// out.
func serve(ctx context.Context, chosen settings, out io.Writer) error {
	logger, err := server.NewLogger(out, chosen.logFormat, chosen.logLevel)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(logger) // client-go logs through klog.
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if err := metrics.Registry.Register(server.BuildInfo(program, server.Version(version))); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	config, err := kube.Config(chosen.kubeconfig, rest.DefaultKubernetesUserAgent()+" "+program)
	if err != nil {
		return err
	}
	p, err := newProcess(chosen, config, logger)
	if err != nil {
		return err
	}
	components, err := p.components(ctx)
	if err != nil {
		return err
	}
	logger.InfoContext(ctx, "starting", "version", server.Version(version))
	shutdown := server.Shutdown{Delay: chosen.shutdownDelay, Deadline: chosen.shutdownDeadline}
	return server.Run(ctx, p.health, shutdown, logger, components...)
}

// process is the agent, put together.
type process struct {
	settings settings
	logger   *slog.Logger
	health   *server.Health
	manager  manager.Manager
	rotation *certificate.Rotation
	known    chan struct{} // closed when the API server knows the kinds that are watched
}

// newProcess puts the agent together. The API server is not asked anything yet.
func newProcess(chosen settings, config *rest.Config, logger *slog.Logger) (*process, error) {
	mgr, err := newManager(chosen, config)
	if err != nil {
		return nil, err
	}
	options := client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}
	direct, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	p := &process{settings: chosen, logger: logger, manager: mgr, known: make(chan struct{})}
	p.health = server.NewHealth("kedify-http-agent", p.waiting)
	p.rotation = &certificate.Rotation{
		Client:  direct,
		Secret:  types.NamespacedName{Namespace: chosen.podNamespace, Name: chosen.webhookSecret},
		Webhook: chosen.webhookName, Names: chosen.certificateNames(), Now: time.Now, Logger: logger,
	}
	return p, nil
}

// components opens the ports and returns what is to run.
func (p *process) components(ctx context.Context) ([]server.Component, error) {
	components := []server.Component{
		{Name: "controllers", Run: p.control},
		{Name: "readiness", Run: p.becomeReady},
	}
	figures := server.MetricsHandler(metrics.Registry)
	ports := []server.Port{
		{Name: "health", Address: p.settings.healthAddress, Flag: "--health-address", Handler: p.health},
		{Name: "metrics", Address: p.settings.metricsAddress, Flag: "--metrics-address", Handler: figures},
	}
	if p.settings.webhookAddress != "" {
		hook, err := webhook.NewServer(p.settings.scalerAddress, p.settings.namespaces, p.manager.GetLogger())
		if err != nil {
			return nil, err
		}
		secure := &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: p.rotation.Certificate,
		}
		components = append(components, server.Component{Name: "certificate", Run: p.rotation.Run})
		ports = append(ports, server.Port{
			Name: "webhook", Address: p.settings.webhookAddress, Flag: "--webhook-address", Handler: hook, TLS: secure,
		})
	}
	opened, err := server.Open(ctx, p.logger, ports...)
	return append(components, opened...), err
}

// control waits for the kinds that are watched, then runs the controllers until ctx ends.
func (p *process) control(ctx context.Context) error {
	installed := func(context.Context) (bool, error) { return len(p.missing()) == 0, nil }
	if err := wait.PollUntilContextCancel(ctx, lookEvery, true, installed); err != nil {
		return nil //nolint:nilerr // the agent ends, which is the only error
	}
	reconciler := &controllers.Reconciler{
		Client:        p.manager.GetClient(),
		Stored:        p.manager.GetAPIReader(),
		Events:        p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:           time.Now,
		ScalerAddress: p.settings.scalerAddress,
	}
	if err := reconciler.Register(ctx, p.manager); err != nil {
		return err
	}
	if err := p.addProxies(); err != nil {
		return err
	}
	autowirer := &controllers.Autowirer{
		Client:        p.manager.GetClient(),
		Stored:        p.manager.GetAPIReader(),
		Events:        p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:           time.Now,
		ScalerAddress: p.settings.scalerAddress,
		CoolDown:      p.settings.autowireCoolDown,
		IsOff:         !p.settings.autowire,
		Shared:        p.settings.podNamespace,
		Namespaces:    p.settings.namespaces,
	}
	if err := autowirer.Register(p.manager); err != nil {
		return err
	}
	close(p.known)
	return p.manager.Start(ctx)
}

// addProxies adds the controller of proxies, unless it is switched off.
func (p *process) addProxies() error {
	if !p.settings.installProxies {
		return nil
	}
	chosen, err := p.settings.proxySettings()
	if err != nil {
		return err
	}
	installer := &controllers.Installer{
		Client:     p.manager.GetClient(),
		Stored:     p.manager.GetAPIReader(),
		Events:     p.manager.GetEventRecorderFor(httpv1alpha1.ManagedByAgent),
		Now:        time.Now,
		Settings:   chosen,
		Delay:      p.settings.proxyRemovalDelay,
		Namespaces: p.settings.namespaces,
	}
	return installer.Register(p.manager)
}

// becomeReady says that the agent is ready once its cache is filled and the webhook can be trusted.
func (p *process) becomeReady(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.known:
	}
	synced := p.manager.GetCache().WaitForCacheSync(ctx)
	ready := wait.PollUntilContextCancel(ctx, lookEvery, true, func(context.Context) (bool, error) {
		return p.settings.webhookAddress == "" || p.certified(), nil
	})
	if synced && ready == nil {
		p.health.SetReady()
	}
	<-ctx.Done()
	return nil
}

// certified says whether the webhook has a certificate.
func (p *process) certified() bool {
	_, err := p.rotation.Certificate(nil)
	return err == nil
}
