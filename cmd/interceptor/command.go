package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// settings are the values of the flags and environment variables.
type settings struct {
	kubeconfig string
	namespaces []string

	xdsAddress     string
	sinkAddress    string
	proxyAddress   string
	adminAddress   string
	metricsAddress string
	// dashboardAddress is a loopback address, "" for no live page.
	dashboardAddress string

	interceptorTLSSecret string
	proxyAuthentication  string

	translate     translate.Options
	tracingCAFile string

	podIP            string
	coldStartTimeout time.Duration
	limits           holding.Limits
	waitingPages     bool
	envoySettings    bool
	podName          string
	podNamespace     string
	maxObjects       int
	maxHosts         int
	maxHistograms    int

	batchInterval    time.Duration
	clusterGrace     time.Duration
	maxStreams       int
	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
	profiling bool
}

// Default limits of one namespace. They prevent one tenant from using the memory of all.
const (
	defaultMaxObjects = 1000
	defaultMaxHosts   = 5000
)

// Default limits of queued requests. A queued request takes about 57 kB in a proxy and 15 kB in the interceptor
// (docs/how-to/scale-from-zero.md): the limits keep both below the memory limits of their Deployments in config/.
const (
	defaultColdStartTimeout   = 20 * time.Minute
	defaultQueuedPerObject    = 1000
	defaultQueuedPerNamespace = 4000
	defaultQueuedPerProxy     = 1500
	defaultQueued             = 10_000
)

// envPrefix is the prefix of the environment variables for flags.
const envPrefix = "KEDIFY_INTERCEPTOR_"

// newCommand returns the command. A flag that isn't on the command line is read from the environment. run runs the
// interceptor and logs to its last argument.
func newCommand(
	lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error,
) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "Control plane of the Kedify HTTP proxies",
		Long: `interceptor watches HTTPScaledObjects, Services and EndpointSlices and configures Envoy proxies over xDS.

Every flag has an environment variable, which is used if the flag is not set: ` + envPrefix + ` followed by
the flag's name in capitals with underscores, such as ` + envPrefix + `LOG_LEVEL for --log-level.
POD_NAME, POD_NAMESPACE and POD_IP, as the downward API sets them, set --pod-name, --pod-namespace and --pod-ip.
OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_SAMPLER_ARG set --tracing-endpoint and --tracing-sampling.
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS and its counterparts set --max-upstream-connections and its counterparts.`,
		Version:       server.Version(version),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE: func(command *cobra.Command, _ []string) error {
			if err := server.ApplyEnvironment(command.Flags(), envPrefix, envAlternatives(), lookupEnv); err != nil {
				return err
			}
			return chosen.check()
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), chosen, command.ErrOrStderr())
		},
	}
	command.Flags().SetNormalizeFunc(formerFlags)
	chosen.addFlags(command.Flags())
	return command
}

// formerFlags accepts --max-held and the flags that began with it, the former names of the --max-queued flags.
func formerFlags(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if rest, isFormer := strings.CutPrefix(name, "max-held"); isFormer {
		name = "max-queued" + rest
	}
	return pflag.NormalizedName(name)
}

// addFlags adds the flags with their defaults.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; by default $KUBECONFIG, else the Pod's ServiceAccount, else ~/.kube/config")
	flags.StringSliceVar(&s.namespaces, "namespaces", nil, "comma-separated `namespaces` to serve; by default all")
	s.addAddressFlags(flags)
	s.addProxyFlags(flags)
	s.addTracingFlags(flags)
	s.addReplicaFlags(flags)
	s.addQueueFlags(flags)
	s.addTenantFlags(flags)
	s.addServerFlags(flags)
	s.addLogFlags(flags)
}

// addAddressFlags adds the flags of the addresses of servers.
func (s *settings) addAddressFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.xdsAddress, "xds-address", ":5678",
		"`address` of the xDS server for proxies (gRPC)")
	flags.StringVar(&s.sinkAddress, "metric-sink-address", ":9901",
		"`address` of the MetricsService for proxies (gRPC)")
	flags.StringVar(&s.proxyAddress, "proxy-address", ":8080",
		"`address` for /livez and /readyz; any other request gets 503")
	flags.StringVar(&s.adminAddress, "admin-address", ":9090", "`address` of the admin server (/queue, /demand, pprof)")
	flags.StringVar(&s.metricsAddress, "metrics-address", ":2223", "`address` for /metrics (Prometheus)")
	flags.StringVar(&s.dashboardAddress, "dashboard-address", "127.0.0.1:9091",
		"loopback `address` of the live page, for kubectl port-forward; the admin port serves it under /dashboard/ with TLS "+
			"and tokens of users; empty turns it off")
	flags.StringVar(&s.interceptorTLSSecret, "interceptor-tls-secret", httpv1alpha1.InterceptorTLSSecret,
		"`name` of the Secret in --pod-namespace with the certificate: the ports for proxies serve TLS and plaintext, "+
			"and the admin port TLS only, to the scaler; empty turns TLS off: plaintext only, with private keys")
	flags.StringVar(&s.proxyAuthentication, "proxy-authentication", httpv1alpha1.ProxyAuthenticationPermissive,
		"`mode` of fleets: permissive (a proxy without TLS or without a token is served, without private keys) or strict "+
			"(it is not served). Annotation "+httpv1alpha1.AnnotationProxyAuthentication+" of a Service kedify-proxy "+
			"overrides it")
}

// addProxyFlags adds the flags of the configuration of all proxies.
func (s *settings) addProxyFlags(flags *pflag.FlagSet) {
	standard := translate.DefaultOptions()
	flags.BoolVar(&s.translate.AccessLog, "access-log", standard.AccessLog,
		"log the requests of the proxies to their standard output")
	s.addAccessLogFlags(flags)
	flags.BoolVar(&s.translate.TLS, "tls", true,
		"serve TLS for hosts of HTTPScaledObjects that name a Secret with a certificate")
	flags.BoolVar(&s.translate.TopologyHints, "topology-hints", standard.TopologyHints,
		"prefer the Pods that EndpointSlices intend for the node or the zone of a proxy (trafficDistribution of a Service)")
	flags.Uint32Var(&s.translate.TrustedHops, "trusted-hops", standard.TrustedHops,
		"`number` of proxies in front of kedify-proxy whose X-Forwarded-For and X-Forwarded-Proto are trusted")
	flags.DurationVar(&s.translate.RequestHeadersTimeout, "request-headers-timeout", standard.RequestHeadersTimeout,
		"maximum `time` from the first byte of a request to the end of its headers; 0s for no limit")
	flags.StringVar(&s.translate.Strictness.UnderscoreHeaders, "underscore-headers", standard.Strictness.UnderscoreHeaders,
		"`action` on request headers with an underscore in their names: keep, drop or reject")
	flags.StringVar(&s.translate.Strictness.EscapedSlashes, "escaped-slashes", standard.Strictness.EscapedSlashes,
		"`action` on paths with escaped slashes (%2F, %5C): keep, reject, redirect or unescape")
	flags.BoolVar(&s.translate.Strictness.MergeSlashes, "merge-slashes", standard.Strictness.MergeSlashes,
		"replace adjacent slashes in paths with one slash")
	flags.Uint32Var(&s.translate.MaxConnections, "max-upstream-connections", standard.MaxConnections,
		"maximum `number` of connections of a proxy to a backend")
	flags.Uint32Var(&s.translate.MaxPendingRequests, "max-upstream-pending-requests", standard.MaxPendingRequests,
		"maximum `number` of requests of a proxy that wait for a connection to a backend")
	flags.Uint32Var(&s.translate.MaxRequests, "max-upstream-requests", standard.MaxRequests,
		"maximum `number` of concurrent requests of a proxy to a backend")
	flags.Uint32Var(&s.translate.MaxRetries, "max-upstream-retries", standard.MaxRetries,
		"`number` of concurrent retries of a proxy to a backend that are always possible; more are half of its active "+
			"requests. 0 means no limit for requests that no application can have received, and 3 for others")
}

// addReplicaFlags adds the flags of the identity of this replica.
func (s *settings) addReplicaFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.podName, "pod-name", "",
		"`name` of this replica in elections and Events; by default the host name")
	flags.StringVar(&s.podNamespace, "pod-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the replicas, of the shared proxies, and of the Lease that elects the replica that writes "+
			"statuses")
}

// addQueueFlags adds the flags of queued requests.
func (s *settings) addQueueFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.podIP, "pod-ip", "", "`address` at which proxies connect to this replica; empty to queue no "+
		"requests")
	flags.DurationVar(&s.coldStartTimeout, "cold-start-timeout", defaultColdStartTimeout,
		"maximum `time` that a request is queued, unless its HTTPScaledObject sets another; 0s for as long as possible")
	flags.IntVar(&s.limits.Object, "max-queued-per-object", defaultQueuedPerObject,
		"maximum `number` of queued requests of one HTTPScaledObject")
	flags.IntVar(&s.limits.Namespace, "max-queued-per-namespace", defaultQueuedPerNamespace,
		"maximum `number` of queued requests of one namespace")
	flags.IntVar(&s.limits.Proxy, "max-queued-per-proxy", defaultQueuedPerProxy,
		"maximum `number` of queued requests of one proxy")
	flags.IntVar(&s.limits.Total, "max-queued", defaultQueued, "maximum `number` of queued requests in this replica")
}

// addTenantFlags adds the flags of what tenants may configure.
func (s *settings) addTenantFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.waitingPages, "waiting-pages", true,
		"read waiting pages and bodies of static responses in ConfigMaps; requires the permission to list and watch configmaps")
	flags.BoolVar(&s.envoySettings, "envoy-settings", true,
		"apply Envoy settings in ConfigMaps "+envoysettings.GlobalName+" and "+envoysettings.Name+
			"; requires the permission to list and watch these")
	flags.IntVar(&s.maxObjects, "max-objects-per-namespace", defaultMaxObjects,
		"maximum `number` of served HTTPScaledObjects of one namespace; 0 for no limit")
	flags.IntVar(&s.maxHosts, "max-hosts-per-namespace", defaultMaxHosts,
		"maximum `number` of hosts of HTTPScaledObjects of one namespace; 0 for no limit")
}

// addServerFlags adds the flags of the behavior of servers.
func (s *settings) addServerFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.batchInterval, "batch-interval", ingest.DefaultInterval,
		"maximum `time` to collect changes after a publication; less if publications are fast")
	flags.DurationVar(&s.clusterGrace, "cluster-grace", xds.DefaultGrace,
		"`time` that proxies keep a backend after the last route to it is removed")
	flags.IntVar(&s.maxStreams, "max-streams", xds.DefaultMaxStreams,
		"maximum `number` of xDS streams, and of metric streams")
	flags.IntVar(&s.maxHistograms, "max-response-histograms", sink.DefaultMaxHistograms,
		"maximum `number` of backends with a histogram of response times in /metrics, those in a canary first; 0 for none")
	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second,
		"`time` to keep serving, unready, after SIGTERM")
	flags.DurationVar(&s.shutdownDeadline, "shutdown-deadline", 15*time.Second,
		"`time` allowed for graceful shutdown after --shutdown-delay")
}

// addLogFlags adds the flags of logs and profiles.
func (s *settings) addLogFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.logFormat, "log-format", server.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info", "minimum log `level`: debug, info, warn or error")
	flags.BoolVar(&s.profiling, "pprof", false, "serve Go profiles under /debug/pprof/ on the admin address")
}

// errSetting is the error of an invalid flag value.
var errSetting = errors.New("invalid setting")

// check validates the settings that no component validates, and sets podName to the host name if it is empty.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"batch-interval": s.batchInterval, "cluster-grace": s.clusterGrace, "shutdown-delay": s.shutdownDelay,
		"shutdown-deadline": s.shutdownDeadline, "request-headers-timeout": s.translate.RequestHeadersTimeout,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s: %v is negative: use 0s or more", errSetting, name, value)
		}
	}
	if s.maxStreams < 1 {
		return fmt.Errorf("%w: --max-streams: %d is too small: use at least 1", errSetting, s.maxStreams)
	}
	for name, value := range map[string]int{
		"max-objects-per-namespace": s.maxObjects,
		"max-hosts-per-namespace":   s.maxHosts,
		"max-response-histograms":   s.maxHistograms,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s: %d is negative: use 0 or more", errSetting, name, value)
		}
	}
	if err := s.translate.Strictness.Check(); err != nil {
		return fmt.Errorf("%w: %w", errSetting, err)
	}
	err := errors.Join(s.checkAuthentication(), s.checkHold(), s.checkDashboard(), s.checkTracing(), s.checkAccessLog())
	if err != nil {
		return err
	}
	if s.podName != "" {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("%w: --pod-name: cannot read the host name: set the flag: %w", errSetting, err)
	}
	s.podName = name
	return nil
}

// checkAuthentication validates how proxies are authenticated.
func (s *settings) checkAuthentication() error {
	switch s.proxyAuthentication {
	case httpv1alpha1.ProxyAuthenticationPermissive:
		return nil
	case httpv1alpha1.ProxyAuthenticationStrict:
		if s.interceptorTLSSecret != "" {
			return nil
		}
		return fmt.Errorf("%w: --proxy-authentication: strict needs TLS: set --interceptor-tls-secret", errSetting)
	default:
		return fmt.Errorf("%w: --proxy-authentication: %q is not a mode: use %s or %s", errSetting, s.proxyAuthentication,
			httpv1alpha1.ProxyAuthenticationPermissive, httpv1alpha1.ProxyAuthenticationStrict)
	}
}

// checkDashboard validates the address of the live page, which needs no token there.
func (s *settings) checkDashboard() error {
	if s.dashboardAddress == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(s.dashboardAddress)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("%w: --dashboard-address: %q is not a loopback address with a port: use 127.0.0.1:9091, or leave it "+
			"empty to turn the page off", errSetting, s.dashboardAddress)
	}
	return nil
}

// checkHold validates the settings of queued requests, and sets the address of ext_authz for proxies.
func (s *settings) checkHold() error {
	if s.coldStartTimeout < 0 || s.coldStartTimeout > translate.MaxHold {
		return fmt.Errorf("%w: --cold-start-timeout: %v is out of range: use at most %v, or 0s for as long as possible",
			errSetting, s.coldStartTimeout, translate.MaxHold)
	}
	for name, value := range map[string]int{
		"max-queued-per-object": s.limits.Object, "max-queued-per-namespace": s.limits.Namespace,
		"max-queued-per-proxy": s.limits.Proxy, "max-queued": s.limits.Total,
	} {
		if value < 1 {
			return fmt.Errorf("%w: --%s: %d is too small: use at least 1, or leave --pod-ip empty to queue no requests",
				errSetting, name, value)
		}
	}
	if s.podIP == "" {
		return nil
	}
	ip, err := netip.ParseAddr(s.podIP)
	if err != nil {
		return fmt.Errorf("%w: --pod-ip: %w: use the Pod's address, or leave it empty to queue no requests", errSetting,
			err)
	}
	xdsPort, err := netip.ParseAddrPort("0.0.0.0" + s.xdsAddress[max(0, strings.LastIndexByte(s.xdsAddress, ':')):])
	if err != nil {
		return fmt.Errorf("%w: --xds-address: no port number at the end: use an address such as :5678: %w", errSetting,
			err)
	}
	s.translate.Hold.Checks = netip.AddrPortFrom(ip.Unmap(), xdsPort.Port())
	return nil
}

// envAlternatives returns the second environment variables of flags, or those of their former names.
func envAlternatives() map[string]string {
	return map[string]string{
		"pod-name":                      "POD_NAME",
		"pod-ip":                        "POD_IP",
		"pod-namespace":                 "POD_NAMESPACE",
		"tracing-endpoint":              "OTEL_EXPORTER_OTLP_ENDPOINT",
		"tracing-sampling":              "OTEL_TRACES_SAMPLER_ARG",
		"max-upstream-connections":      "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS",
		"max-upstream-pending-requests": "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS",
		"max-upstream-requests":         "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS",
		"max-upstream-retries":          "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES",
		"max-queued-per-object":         envPrefix + "MAX_HELD_PER_OBJECT",
		"max-queued-per-namespace":      envPrefix + "MAX_HELD_PER_NAMESPACE",
		"max-queued-per-proxy":          envPrefix + "MAX_HELD_PER_PROXY",
		"max-queued":                    envPrefix + "MAX_HELD",
	}
}
