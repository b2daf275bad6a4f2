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
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// settings are what the command line and the environment decide.
type settings struct {
	kubeconfig string
	namespaces []string

	xdsAddress     string
	sinkAddress    string
	proxyAddress   string
	adminAddress   string
	metricsAddress string

	translate translate.Options

	podIP         string
	patience      time.Duration
	limits        holding.Limits
	waitingPages  bool
	envoySettings bool
	podName       string
	podNamespace  string
	maxObjects    int
	maxHosts      int

	batchInterval    time.Duration
	clusterGrace     time.Duration
	maxStreams       int
	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
	profiling bool
}

// Bounds of one namespace where nothing else is set. They keep one tenant from taking the memory of all.
const (
	defaultMaxObjects = 1000
	defaultMaxHosts   = 5000
)

// Requests that are held where nothing else is set. Each takes about 50 kB of a proxy and 13 kB here:
// the limits keep both below what config/ gives them.
const (
	defaultPatience         = 20 * time.Minute
	defaultHeldPerApp       = 1000
	defaultHeldPerNamespace = 4000
	defaultHeldPerProxy     = 1500
	defaultHeld             = 10_000
)

// envPrefix begins the environment variables that stand for flags.
const envPrefix = "KEDIFY_INTERCEPTOR_"

// newCommand returns the command line. Every flag that is not given is looked up in the environment. run does the work;
// logs go to its last argument.
func newCommand(
	lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error,
) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "Control plane of the Kedify HTTP proxies",
		Long: `interceptor watches HTTPScaledObjects, Services and EndpointSlices and tells Envoy proxies over xDS what to serve.

Every flag has an environment variable, which counts when the flag is not given: ` + envPrefix + ` and the flag's
name in capitals with underscores, such as ` + envPrefix + `LOG_LEVEL for --log-level. POD_NAME, POD_NAMESPACE and POD_IP,
as the downward API sets them, count for --pod-name, --pod-namespace and --pod-ip, and
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS and its like for --max-upstream-connections and its like.`,
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
	chosen.addFlags(command.Flags())
	return command
}

// addFlags declares the flags and their defaults.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; by default the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config")
	flags.StringSliceVar(&s.namespaces, "namespaces", nil, "`namespaces` to serve, separated by commas; by default all")

	flags.StringVar(&s.xdsAddress, "xds-address", ":5678",
		"`address` for proxies that fetch their configuration (xDS over gRPC)")
	flags.StringVar(&s.sinkAddress, "metric-sink-address", ":9901",
		"`address` for proxies that report their metrics (MetricsService over gRPC)")
	flags.StringVar(&s.proxyAddress, "proxy-address", ":8080",
		"`address` for /livez and /readyz, and for requests that no endpoint is ready for")
	flags.StringVar(&s.adminAddress, "admin-address", ":9090", "`address` for people who look into the process")
	flags.StringVar(&s.metricsAddress, "metrics-address", ":2223", "`address` for /metrics (Prometheus)")

	standard := translate.DefaultOptions()
	flags.BoolVar(&s.translate.AccessLog, "access-log", standard.AccessLog, "have proxies log every request as JSON")
	flags.BoolVar(&s.translate.TLS, "tls", true,
		"have proxies take TLS too, for hosts whose HTTPScaledObject names a Secret with a certificate")
	flags.Uint32Var(&s.translate.TrustedHops, "trusted-hops", standard.TrustedHops,
		"`number` of proxies before ours whose X-Forwarded-For and X-Forwarded-Proto are believed")
	flags.Uint32Var(&s.translate.MaxConnections, "max-upstream-connections", standard.MaxConnections,
		"highest `number` of connections of a proxy to a backend")
	flags.Uint32Var(&s.translate.MaxPendingRequests, "max-upstream-pending-requests", standard.MaxPendingRequests,
		"highest `number` of requests of a proxy that wait for a connection to a backend")
	flags.Uint32Var(&s.translate.MaxRequests, "max-upstream-requests", standard.MaxRequests,
		"highest `number` of requests of a proxy to a backend at a time")
	flags.Uint32Var(&s.translate.MaxRetries, "max-upstream-retries", standard.MaxRetries,
		"highest `number` of retries of a proxy to a backend at a time")

	flags.StringVar(&s.podName, "pod-name", "",
		"`name` of this replica in elections and Events; by default the host's name")
	flags.StringVar(&s.podNamespace, "pod-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the replicas, of the shared proxies, and of the Lease by which a replica is elected to write "+
			"statuses")

	flags.StringVar(&s.podIP, "pod-ip", "", "`address` at which proxies reach this replica; without it no request is "+
		"held")
	flags.DurationVar(&s.patience, "cold-start-timeout", defaultPatience,
		"longest `time` that a request is held where its object says nothing about it")
	flags.IntVar(&s.limits.Object, "max-held-per-object", defaultHeldPerApp,
		"highest `number` of requests of one HTTPScaledObject that are held here")
	flags.IntVar(&s.limits.Namespace, "max-held-per-namespace", defaultHeldPerNamespace,
		"highest `number` of those of one namespace")
	flags.IntVar(&s.limits.Proxy, "max-held-per-proxy", defaultHeldPerProxy, "highest `number` of those of one proxy")
	flags.IntVar(&s.limits.Total, "max-held", defaultHeld, "highest `number` of requests that are held here")

	flags.BoolVar(&s.waitingPages, "waiting-pages", true,
		"show waiting pages of ConfigMaps; takes the permission to list and watch configmaps")

	flags.BoolVar(&s.envoySettings, "envoy-settings", true,
		"change settings of Envoy by ConfigMaps "+envoysettings.GlobalName+" and "+envoysettings.Name+
			"; takes the permission to list and watch these")

	flags.IntVar(&s.maxObjects, "max-objects-per-namespace", defaultMaxObjects,
		"highest `number` of HTTPScaledObjects of one namespace that are served; 0 for any")
	flags.IntVar(&s.maxHosts, "max-hosts-per-namespace", defaultMaxHosts,
		"highest `number` of hosts in them; 0 for any")

	flags.DurationVar(&s.batchInterval, "batch-interval", ingest.DefaultInterval,
		"longest `time` in which changes are collected after a publication; it is less when publications take little")
	flags.DurationVar(&s.clusterGrace, "cluster-grace", xds.DefaultGrace,
		"`time` that proxies keep a backend after no route names it any more")
	flags.IntVar(&s.maxStreams, "max-streams", xds.DefaultMaxStreams,
		"highest `number` of connected proxies, and of those that report metrics")
	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second,
		"`time` that everything goes on after a signal to stop, no longer ready")
	flags.DurationVar(&s.shutdownDeadline, "shutdown-deadline", 15*time.Second,
		"`time` that stopping may take after that")

	flags.StringVar(&s.logFormat, "log-format", server.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info", "lowest `level` that is logged: debug, info, warn or error")
	flags.BoolVar(&s.profiling, "pprof", false, "serve Go profiles under /debug/pprof/ on the admin address")
}

// errSetting says that a setting has a value that cannot work.
var errSetting = errors.New("invalid setting")

// check refuses what no part would notice, and fills in the name of the host.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"batch-interval": s.batchInterval, "cluster-grace": s.clusterGrace, "shutdown-delay": s.shutdownDelay,
		"shutdown-deadline": s.shutdownDeadline,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s is %v, but a time cannot be negative", errSetting, name, value)
		}
	}
	if s.maxStreams < 1 {
		return fmt.Errorf("%w: --max-streams is %d, but at least 1 is needed", errSetting, s.maxStreams)
	}
	for name, value := range map[string]int{"max-objects-per-namespace": s.maxObjects,
		"max-hosts-per-namespace": s.maxHosts} {
		if value < 0 {
			return fmt.Errorf("%w: --%s is %d, but a number cannot be negative", errSetting, name, value)
		}
	}
	if err := s.checkHold(); err != nil {
		return err
	}
	if s.podName != "" {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("this host has no name, set --pod-name: %w", err)
	}
	s.podName = name
	return nil
}

// checkHold is check for what holds requests, and finds out where proxies ask for that.
func (s *settings) checkHold() error {
	if s.patience <= 0 || s.patience > translate.MaxHold {
		return fmt.Errorf("%w: --cold-start-timeout is %v; set it to a time above 0s, at most %v", errSetting,
			s.patience, translate.MaxHold)
	}
	for name, value := range map[string]int{
		"max-held-per-object": s.limits.Object, "max-held-per-namespace": s.limits.Namespace,
		"max-held-per-proxy": s.limits.Proxy, "max-held": s.limits.Total,
	} {
		if value < 1 {
			return fmt.Errorf("%w: --%s is %d, but at least 1 is needed; to hold no request, leave --pod-ip empty",
				errSetting, name, value)
		}
	}
	if s.podIP == "" {
		return nil
	}
	ip, err := netip.ParseAddr(s.podIP)
	if err != nil {
		return fmt.Errorf("%w: --pod-ip: %w", errSetting, err)
	}
	at, err := netip.ParseAddrPort("0.0.0.0" + s.xdsAddress[max(0, strings.LastIndexByte(s.xdsAddress, ':')):])
	if err != nil {
		return fmt.Errorf("%w: --xds-address has to end with a port number, such as :5678: %w", errSetting, err)
	}
	s.translate.Hold.Checks = netip.AddrPortFrom(ip, at.Port())
	return nil
}

// envAlternatives are the environment variables that flags have beside their own.
func envAlternatives() map[string]string {
	return map[string]string{
		"pod-name":                      "POD_NAME",
		"pod-ip":                        "POD_IP",
		"pod-namespace":                 "POD_NAMESPACE",
		"max-upstream-connections":      "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS",
		"max-upstream-pending-requests": "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS",
		"max-upstream-requests":         "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS",
		"max-upstream-retries":          "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES",
	}
}
