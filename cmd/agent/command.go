package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// settings are the values of the flags and environment variables.
type settings struct {
	kubeconfig    string
	namespaces    []string
	scalerAddress string

	autowire         bool
	restoreBackends  bool
	autowireCoolDown time.Duration
	referenceGrants  bool

	installProxies    bool
	proxyImage        string
	proxyReplicas     int32
	proxyMaxReplicas  int32
	proxyConnections  int32
	proxyResources    string
	proxyPod          string
	proxyService      string
	proxyEnvoyConfig  string
	proxyRemovalDelay time.Duration

	interceptorTLSSecret string
	externalTLSSecret    bool

	webhookAddress string
	webhookNames   []string
	webhookSecret  string
	webhookName    string
	healthAddress  string
	metricsAddress string

	podNamespace     string
	podIP            string
	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
}

// envPrefix is the prefix of the environment variables for flags.
const envPrefix = "KEDIFY_AGENT_"

// webhookService is the Service by which the API server reaches the webhook.
const webhookService = "kedify-http-agent"

// newCommand returns the command line. The default of a flag is its environment variable. run runs the agent and
// logs to its last argument.
func newCommand(
	lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error,
) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "Create HTTPScaledObjects from the kedify-http triggers of ScaledObjects",
		Long: `agent watches ScaledObjects, creates an HTTPScaledObject for each kedify-http trigger, installs
kedify-proxy in each namespace that needs it, points the backends of Ingresses, HTTPRoutes,
VirtualServices and Routes at it, and serves the webhook that makes an unmodified KEDA accept such triggers.

The default of each flag can be set by an environment variable: ` + envPrefix + ` and the flag's
name in upper case with underscores, such as ` + envPrefix + `LOG_LEVEL for --log-level.
POD_NAMESPACE and POD_IP, as set by the downward API, are the defaults of --pod-namespace and --pod-ip.`,
		Version:       server.Version(version),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE: func(command *cobra.Command, _ []string) error {
			alternatives := map[string]string{"pod-namespace": "POD_NAMESPACE", "pod-ip": "POD_IP"}
			if err := server.ApplyEnvironment(command.Flags(), envPrefix, alternatives, lookupEnv); err != nil {
				return err
			}
			return chosen.check()
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), chosen, command.ErrOrStderr())
		},
	}
	chosen.addFlags(command.Flags())
	return command
}

// addFlags declares the flags and their defaults.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; by default $KUBECONFIG, else the Pod's ServiceAccount, else ~/.kube/config")
	flags.StringSliceVar(&s.namespaces, "namespaces", nil,
		"comma-separated `namespaces` to watch; by default all")
	flags.StringVar(&s.scalerAddress, "scaler-address", "keda-add-ons-http-external-scaler.keda:9090",
		"`address` at which KEDA reaches the scaler; "+
			"the agent also manages triggers of type external-push with this address")

	flags.BoolVar(&s.autowire, "autowire", true,
		"point backends of Ingresses, HTTPRoutes, VirtualServices and Routes at the proxies; "+
			"false restores all original backends: set it before you remove the agent")
	flags.BoolVar(&s.restoreBackends, "restore-backends", true,
		"with --autowire=false, restore all original backends; false leaves wired backends as they are, "+
			"and needs no permission for Ingresses, HTTPRoutes, VirtualServices and Routes")
	flags.DurationVar(&s.autowireCoolDown, "autowire-cool-down", 30*time.Second,
		"`time` after Service kedify-proxy lost its last ready endpoint until backends may point to it again")
	flags.BoolVar(&s.referenceGrants, "reference-grants", true,
		"create ReferenceGrants for the shared proxies; false only reads those that you create")

	s.addProxyFlags(flags)
	s.addInterceptorFlags(flags)
	flags.StringVar(&s.webhookAddress, "webhook-address", ":9443",
		"`address` of the mutating webhook; "+
			"empty disables it: triggers are then converted after they are stored")
	flags.StringSliceVar(&s.webhookNames, "webhook-names", nil,
		"additional DNS `names` in the webhook's certificate")
	flags.StringVar(&s.webhookSecret, "webhook-secret", "kedify-http-agent-webhook",
		"`name` of the Secret that stores the webhook's certificate")
	flags.StringVar(&s.webhookName, "webhook-configuration", "kedify-http-agent",
		"`name` of the MutatingWebhookConfiguration in which the agent sets the CA bundle")
	flags.StringVar(&s.healthAddress, "health-address", ":8081", "`address` for /livez and /readyz")
	flags.StringVar(&s.metricsAddress, "metrics-address", ":2223",
		"`address` for /metrics (Prometheus)")

	flags.StringVar(&s.podNamespace, "pod-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the replicas, of the Lease for leader election, "+
			"of the webhook's Service and Secret, and of the interceptor")
	flags.StringVar(&s.podIP, "pod-ip", "",
		"first IP `address` of this Pod; if it is an IPv6 address, proxies also answer probes on IPv6")
	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second,
		"`time` to keep serving, unready, after SIGTERM")
	flags.DurationVar(&s.shutdownDeadline, "shutdown-deadline", 15*time.Second,
		"`time` allowed for graceful shutdown after --shutdown-delay")

	flags.StringVar(&s.logFormat, "log-format", server.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info",
		"minimum log `level`: debug, info, warn or error")
}

// addProxyFlags declares the flags of the proxies that the agent installs.
func (s *settings) addProxyFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.installProxies, "install-proxies", true,
		"install kedify-proxy in each namespace that needs it, and remove it when nothing needs it; "+
			"false leaves existing proxies unchanged")
	flags.StringVar(&s.proxyImage, "proxy-image", "",
		"Envoy `image`; by default that of config/kedify-proxy. "+
			"Annotation "+httpv1alpha1.AnnotationProxyImage+" of a Namespace overrides it")
	flags.Int32Var(&s.proxyReplicas, "proxy-replicas", 1,
		"`number` of proxies in a namespace. Annotation "+httpv1alpha1.AnnotationProxyReplicas+" of a Namespace "+
			"overrides it; replicas that others set on the Deployment later are kept")
	flags.Int32Var(&s.proxyMaxReplicas, "proxy-max-replicas", 0,
		"maximum `number` of proxies in a namespace: KEDA scales them by CPU usage; 0 disables scaling. "+
			"Annotation "+httpv1alpha1.AnnotationProxyMaxReplicas+" of a Namespace overrides it")
	flags.Int32Var(&s.proxyConnections, "proxy-target-connections", 0,
		"`number` of connections with clients for each proxy, above which KEDA adds proxies, too; 0 for CPU usage only. No "+
			"effect without a maximum. Annotation "+httpv1alpha1.AnnotationProxyTargetConnections+
			" of a Namespace overrides it")
	flags.StringVar(&s.proxyResources, "proxy-resources", "",
		"`requests and limits` of a proxy as YAML or JSON, such as {limits: {memory: 512Mi}}; by default those of "+
			"config/kedify-proxy. Annotation "+httpv1alpha1.AnnotationProxyResources+" of a Namespace overrides it")
	flags.StringVar(&s.proxyPod, "proxy-pod", "",
		"`settings` of the proxies' Pods as YAML or JSON: labels, annotations, nodeSelector, tolerations, affinity, "+
			"topologySpreadConstraints, priorityClassName, imagePullSecrets. Annotation "+httpv1alpha1.AnnotationProxyPod+
			" of a Namespace overrides it")
	flags.StringVar(&s.proxyService, "proxy-service", "",
		"`settings` of Service kedify-proxy as YAML or JSON: type, labels, annotations, loadBalancerClass, "+
			"loadBalancerSourceRanges, externalTrafficPolicy, internalTrafficPolicy, trafficDistribution. Annotation "+
			httpv1alpha1.AnnotationProxyService+" of a Namespace overrides it")
	flags.StringVar(&s.proxyEnvoyConfig, "proxy-envoy-config", "",
		"`addition` to Envoy's bootstrap as YAML or JSON. Annotation "+httpv1alpha1.AnnotationProxyEnvoyConfig+
			" of a Namespace overrides it")
	flags.DurationVar(&s.proxyRemovalDelay, "proxy-removal-delay", time.Minute,
		"`time` to keep proxies after nothing needs them and no Ingress points to them: "+
			"longer than load balancers take to apply an Ingress")
}

// addInterceptorFlags declares the flags of the certificate of the interceptor.
func (s *settings) addInterceptorFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.interceptorTLSSecret, "interceptor-tls-secret", httpv1alpha1.InterceptorTLSSecret,
		"`name` of the Secret with the interceptor's certificate, which the agent creates and renews, and whose CA the "+
			"proxies and the scaler trust; empty turns TLS off: proxies connect to the interceptor without it")
	flags.BoolVar(&s.externalTLSSecret, "external-tls-secret", false,
		"read the Secret of --interceptor-tls-secret only: cert-manager or a person creates and renews it")
}

// proxySettings returns the settings of the proxies that the agent installs.
func (s *settings) proxySettings() (parsed proxies.Settings, err error) {
	parsed.InterceptorNamespace, parsed.ScalerAddress = s.podNamespace, s.scalerAddress
	if s.podIP != "" {
		address, err := netip.ParseAddr(s.podIP)
		if err != nil {
			return parsed, fmt.Errorf("%w: --pod-ip: %w", errSetting, err)
		}
		parsed.IPv6 = address.Unmap().Is6()
	}
	if s.proxyImage != "" {
		if parsed.Image, err = proxies.ParseImage(s.proxyImage); err != nil {
			return parsed, fmt.Errorf("--proxy-image: %w", err)
		}
	}
	if parsed.Replicas, err = proxies.ParseReplicas(strconv.Itoa(int(s.proxyReplicas))); err != nil {
		return parsed, fmt.Errorf("--proxy-replicas: %w", err)
	}
	if parsed.MaxReplicas, err = proxies.ParseMaxReplicas(strconv.Itoa(int(s.proxyMaxReplicas))); err != nil {
		return parsed, fmt.Errorf("--proxy-max-replicas: %w", err)
	}
	if err := parsed.Check(); err != nil {
		return parsed, fmt.Errorf("--proxy-max-replicas: %w", err)
	}
	parsed.TargetConnections, err = proxies.ParseTargetConnections(strconv.Itoa(int(s.proxyConnections)))
	if err != nil {
		return parsed, fmt.Errorf("--proxy-target-connections: %w", err)
	}
	if s.proxyResources != "" {
		if parsed.Resources, err = proxies.ParseResources(s.proxyResources); err != nil {
			return parsed, fmt.Errorf("--proxy-resources: %w", err)
		}
	}
	return parsed, s.parseProxyObjects(&parsed)
}

// parseProxyObjects parses the flags with settings of the proxies' objects.
func (s *settings) parseProxyObjects(parsed *proxies.Settings) (err error) {
	if s.proxyPod != "" {
		if parsed.Pod, err = proxies.ParsePod(s.proxyPod); err != nil {
			return fmt.Errorf("--proxy-pod: %w", err)
		}
	}
	if s.proxyService != "" {
		if parsed.Service, err = proxies.ParseService(s.proxyService); err != nil {
			return fmt.Errorf("--proxy-service: %w", err)
		}
	}
	if s.proxyEnvoyConfig != "" {
		if parsed.EnvoyConfig, err = proxies.ParseEnvoyConfig(s.proxyEnvoyConfig); err != nil {
			return fmt.Errorf("--proxy-envoy-config: %w", err)
		}
	}
	return nil
}

// accessesRoutes reports whether the agent reads and writes Ingresses, HTTPRoutes, VirtualServices and Routes.
func (s *settings) accessesRoutes() bool { return s.autowire || s.restoreBackends }

// errSetting is the error of an invalid flag value.
var errSetting = errors.New("invalid setting")

// check validates what no component validates later.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"shutdown-delay": s.shutdownDelay, "shutdown-deadline": s.shutdownDeadline,
		"autowire-cool-down": s.autowireCoolDown, "proxy-removal-delay": s.proxyRemovalDelay,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s: %v is negative: use 0s or more", errSetting, name, value)
		}
	}
	if host, port, err := net.SplitHostPort(s.scalerAddress); err != nil || host == "" || port == "" {
		return fmt.Errorf("%w: --scaler-address: %q has no host or no port: use an address such as scaler.keda:9090",
			errSetting, s.scalerAddress)
	}
	if s.externalTLSSecret && s.interceptorTLSSecret == "" {
		return fmt.Errorf("%w: --external-tls-secret: there is no name of the Secret: set --interceptor-tls-secret",
			errSetting)
	}
	_, err := s.proxySettings()
	return err
}

// interceptorServices are the Services whose names are in the interceptor's certificate.
func interceptorServices() []string {
	return []string{
		"keda-add-ons-http-interceptor-kedify-proxy-metric-sink", "keda-add-ons-http-interceptor-admin",
	}
}

// certificateNames returns the DNS names in the webhook's certificate.
func (s *settings) certificateNames() []string {
	service := webhookService + "." + s.podNamespace + ".svc"
	return slices.Concat([]string{service, service + ".cluster.local"}, s.webhookNames)
}
