package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// settings are what the command line and the environment decide.
type settings struct {
	kubeconfig    string
	namespaces    []string
	scalerAddress string

	autowire         bool
	autowireCoolDown time.Duration

	installProxies    bool
	proxyImage        string
	proxyReplicas     int32
	proxyMaxReplicas  int32
	proxyResources    string
	proxyRemovalDelay time.Duration

	webhookAddress string
	webhookNames   []string
	webhookSecret  string
	webhookName    string
	healthAddress  string
	metricsAddress string

	podNamespace     string
	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
}

// envPrefix begins the environment variables that stand for flags.
const envPrefix = "KEDIFY_AGENT_"

// webhookService is the Service that the API server reaches the webhook by.
const webhookService = "kedify-http-agent"

// newCommand returns the command line. Every flag that is not given is looked up in the
// environment. run does the work; logs go to its last argument.
func newCommand(
	lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error,
) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "HTTPScaledObjects from the kedify-http triggers of ScaledObjects",
		Long: `agent watches ScaledObjects, makes an HTTPScaledObject of each kedify-http trigger, installs a
kedify-proxy in each namespace that needs one, points the backends of Ingresses and HTTPRoutes at it, and
serves the webhook by which a stock KEDA takes such triggers.

Every flag has an environment variable, which counts when the flag is not given: ` + envPrefix + `
and the flag's name in capitals with underscores, such as ` + envPrefix + `LOG_LEVEL for
--log-level. POD_NAMESPACE, as the downward API sets it, counts for --pod-namespace.`,
		Version:       server.Version(version),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE: func(command *cobra.Command, _ []string) error {
			alternatives := map[string]string{"pod-namespace": "POD_NAMESPACE"}
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
		"kubeconfig `file`; by default the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config")
	flags.StringSliceVar(&s.namespaces, "namespaces", nil,
		"`namespaces` whose ScaledObjects count, separated by commas; by default all")
	flags.StringVar(&s.scalerAddress, "scaler-address", "keda-add-ons-http-external-scaler.keda:9090",
		"`address` at which KEDA reaches our scaler; "+
			"triggers of type external-push that have it are ours, too")

	flags.BoolVar(&s.autowire, "autowire", true,
		"point backends of Ingresses and HTTPRoutes at the proxies; "+
			"with false every one gets its own backends back: do so before you remove the agent")
	flags.DurationVar(&s.autowireCoolDown, "autowire-cool-down", 30*time.Second,
		"`time` after Service kedify-proxy lost its last ready endpoint before a backend is pointed at it again")

	s.addProxyFlags(flags)
	flags.StringVar(&s.webhookAddress, "webhook-address", ":9443",
		"`address` of the mutating webhook; "+
			"empty to do without: triggers are converted after they were stored")
	flags.StringSliceVar(&s.webhookNames, "webhook-names", nil,
		"further DNS `names` in the webhook's certificate, beside those of its Service")
	flags.StringVar(&s.webhookSecret, "webhook-secret", "kedify-http-agent-webhook",
		"`name` of the Secret that the webhook's certificate is kept in")
	flags.StringVar(&s.webhookName, "webhook-configuration", "kedify-http-agent",
		"`name` of the MutatingWebhookConfiguration that is told whom to trust")
	flags.StringVar(&s.healthAddress, "health-address", ":8081", "`address` for /livez and /readyz")
	flags.StringVar(&s.metricsAddress, "metrics-address", ":2223",
		"`address` for /metrics (Prometheus)")

	flags.StringVar(&s.podNamespace, "pod-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the replicas, of the Lease by which one is elected, "+
			"of the webhook's Service and Secret, and of the interceptor")
	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second,
		"`time` that everything goes on after a signal to stop, no longer ready")
	flags.DurationVar(&s.shutdownDeadline, "shutdown-deadline", 15*time.Second,
		"`time` that stopping may take after that")

	flags.StringVar(&s.logFormat, "log-format", server.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info",
		"lowest `level` that is logged: debug, info, warn or error")
}

// addProxyFlags declares the flags about the proxies that the agent installs.
func (s *settings) addProxyFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.installProxies, "install-proxies", true,
		"install a kedify-proxy in each namespace that needs one, and remove it after the last that does; "+
			"with false those that are there are left as they are")
	flags.StringVar(&s.proxyImage, "proxy-image", "",
		"`image` of Envoy; by default that of config/kedify-proxy. "+
			"Annotation "+httpv1alpha1.AnnotationProxyImage+" of a Namespace counts before it")
	flags.Int32Var(&s.proxyReplicas, "proxy-replicas", 1,
		"`number` of proxies in a namespace. Annotation "+httpv1alpha1.AnnotationProxyReplicas+" of a Namespace "+
			"counts before it; whoever scales the Deployment afterwards is left alone")
	flags.Int32Var(&s.proxyMaxReplicas, "proxy-max-replicas", 0,
		"highest `number` of proxies in a namespace: KEDA scales them by their use of processors; 0 has nobody scale them. Annotation "+
			httpv1alpha1.AnnotationProxyMaxReplicas+" of a Namespace counts before it")
	flags.StringVar(&s.proxyResources, "proxy-resources", "",
		"`requests and limits` of a proxy as YAML or JSON, such as {limits: {memory: 512Mi}}; by default those of "+
			"config/kedify-proxy. Annotation "+httpv1alpha1.AnnotationProxyResources+" of a Namespace counts before it")
	flags.DurationVar(&s.proxyRemovalDelay, "proxy-removal-delay", time.Minute,
		"`time` that proxies are kept after nothing needs them and no Ingress leads to them: "+
			"longer than load balancers take to follow an Ingress")
}

// proxySettings are those of the proxies that the agent installs.
func (s *settings) proxySettings() (found proxies.Settings, err error) {
	found.InterceptorNamespace = s.podNamespace
	if s.proxyImage != "" {
		if found.Image, err = proxies.ParseImage(s.proxyImage); err != nil {
			return found, fmt.Errorf("--proxy-image: %w", err)
		}
	}
	if found.Replicas, err = proxies.ParseReplicas(strconv.Itoa(int(s.proxyReplicas))); err != nil {
		return found, fmt.Errorf("--proxy-replicas: %w", err)
	}
	if found.MaxReplicas, err = proxies.ParseMaxReplicas(strconv.Itoa(int(s.proxyMaxReplicas))); err != nil {
		return found, fmt.Errorf("--proxy-max-replicas: %w", err)
	}
	if err := found.Check(); err != nil {
		return found, fmt.Errorf("--proxy-max-replicas: %w", err)
	}
	if s.proxyResources != "" {
		if found.Resources, err = proxies.ParseResources(s.proxyResources); err != nil {
			return found, fmt.Errorf("--proxy-resources: %w", err)
		}
	}
	return found, nil
}

// errSetting says that a setting has a value that cannot work.
var errSetting = errors.New("invalid setting")

// check refuses what no part would notice.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"shutdown-delay": s.shutdownDelay, "shutdown-deadline": s.shutdownDeadline,
		"autowire-cool-down": s.autowireCoolDown, "proxy-removal-delay": s.proxyRemovalDelay,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s is %v, but a time cannot be negative", errSetting, name, value)
		}
	}
	if host, port, err := net.SplitHostPort(s.scalerAddress); err != nil || host == "" || port == "" {
		return fmt.Errorf("%w: --scaler-address is %q, but KEDA needs a host and a port, "+
			"such as scaler.keda:9090", errSetting, s.scalerAddress)
	}
	_, err := s.proxySettings()
	return err
}

// certificateNames are the DNS names that the webhook's certificate is for.
func (s *settings) certificateNames() []string {
	service := webhookService + "." + s.podNamespace + ".svc"
	return slices.Concat([]string{service, service + ".cluster.local"}, s.webhookNames)
}
