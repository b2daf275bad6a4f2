package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/telemetry"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// settings are what the command line and the environment decide.
type settings struct {
	kubeconfig string
	namespaces []string

	xdsAddress     string
	proxyAddress   string
	adminAddress   string
	metricsAddress string

	translate translate.Options

	podName      string
	podNamespace string
	fleet        string

	batchInterval    time.Duration
	clusterGrace     time.Duration
	maxStreams       int
	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
	profiling bool
}

// Values of --fleet.
const (
	fleetPerNamespace = "namespace"
	fleetShared       = "cluster"
)

// envPrefix begins the environment variables that stand for flags.
const envPrefix = "KEDIFY_INTERCEPTOR_"

// newCommand returns the command line. Every flag that is not given is looked up in the environment. run does the work; logs go to its last argument.
func newCommand(lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "Control plane of the Kedify HTTP proxies",
		Long: `interceptor watches HTTPScaledObjects, Services and EndpointSlices and tells Envoy proxies over xDS what to serve.

Every flag has an environment variable, which counts when the flag is not given: ` + envPrefix + ` and the flag's
name in capitals with underscores, such as ` + envPrefix + `LOG_LEVEL for --log-level. POD_NAME and POD_NAMESPACE,
as the downward API sets them, count for --pod-name and --pod-namespace, and
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS and its like for --max-upstream-connections and its like.`,
		Version:       programVersion(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE: func(command *cobra.Command, _ []string) error {
			if err := fromEnvironment(command.Flags(), lookupEnv); err != nil {
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
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file`; by default the Pod's ServiceAccount, else $KUBECONFIG or ~/.kube/config")
	flags.StringSliceVar(&s.namespaces, "namespaces", nil, "`namespaces` to serve, separated by commas; by default all")

	flags.StringVar(&s.xdsAddress, "xds-address", ":5678", "`address` for proxies that fetch their configuration (xDS over gRPC)")
	flags.StringVar(&s.proxyAddress, "proxy-address", ":8080", "`address` for /livez and /readyz, and for requests that no endpoint is ready for")
	flags.StringVar(&s.adminAddress, "admin-address", ":9090", "`address` for people who look into the process")
	flags.StringVar(&s.metricsAddress, "metrics-address", ":2223", "`address` for /metrics (Prometheus)")

	standard := translate.DefaultOptions()
	flags.BoolVar(&s.translate.AccessLog, "access-log", standard.AccessLog, "have proxies log every request as JSON")
	flags.Uint32Var(&s.translate.TrustedHops, "trusted-hops", standard.TrustedHops,
		"`number` of proxies before ours whose X-Forwarded-For and X-Forwarded-Proto are believed")
	flags.Uint32Var(&s.translate.MaxConnections, "max-upstream-connections", standard.MaxConnections, "highest `number` of connections of a proxy to a backend")
	flags.Uint32Var(&s.translate.MaxPendingRequests, "max-upstream-pending-requests", standard.MaxPendingRequests,
		"highest `number` of requests of a proxy that wait for a connection to a backend")
	flags.Uint32Var(&s.translate.MaxRequests, "max-upstream-requests", standard.MaxRequests, "highest `number` of requests of a proxy to a backend at a time")
	flags.Uint32Var(&s.translate.MaxRetries, "max-upstream-retries", standard.MaxRetries, "highest `number` of retries of a proxy to a backend at a time")

	flags.StringVar(&s.podName, "pod-name", "", "`name` of this replica in elections and Events; by default the host's name")
	flags.StringVar(&s.podNamespace, "pod-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the replicas and of the Lease by which one of them is elected to write statuses")
	flags.StringVar(&s.fleet, "fleet", fleetPerNamespace, "which proxies serve an HTTPScaledObject, and so count in its status: those of its `namespace`, or "+
		"with the value cluster all proxies of all namespaces")

	flags.DurationVar(&s.batchInterval, "batch-interval", ingest.DefaultInterval, "shortest `time` between two publications; the first change goes out at once")
	flags.DurationVar(&s.clusterGrace, "cluster-grace", xds.DefaultGrace, "`time` that proxies keep a backend after no route names it any more")
	flags.IntVar(&s.maxStreams, "max-streams", xds.DefaultMaxStreams, "highest `number` of connected proxies")
	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second, "`time` that everything goes on after a signal to stop, no longer ready")
	flags.DurationVar(&s.shutdownDeadline, "shutdown-deadline", 15*time.Second, "`time` that stopping may take after that")

	flags.StringVar(&s.logFormat, "log-format", telemetry.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info", "lowest `level` that is logged: debug, info, warn or error")
	flags.BoolVar(&s.profiling, "pprof", false, "serve Go profiles under /debug/pprof/ on the admin address")
}

// errSetting says that a setting has a value that cannot work.
var errSetting = errors.New("invalid setting")

// check refuses what no part would notice, and fills in the name of the host.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"batch-interval": s.batchInterval, "cluster-grace": s.clusterGrace, "shutdown-delay": s.shutdownDelay, "shutdown-deadline": s.shutdownDeadline,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s is %v, but a time cannot be negative", errSetting, name, value)
		}
	}
	if s.maxStreams < 1 {
		return fmt.Errorf("%w: --max-streams is %d, but at least 1 is needed", errSetting, s.maxStreams)
	}
	if s.fleet != fleetPerNamespace && s.fleet != fleetShared {
		return fmt.Errorf("%w: --fleet is %.80q, but it is either %s or %s", errSetting, s.fleet, fleetPerNamespace, fleetShared)
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

// fromEnvironment sets the flags that were not given to what the environment says.
func fromEnvironment(flags *pflag.FlagSet, lookupEnv func(string) (string, bool)) error {
	alternatives := map[string]string{
		"pod-name":                      "POD_NAME",
		"pod-namespace":                 "POD_NAMESPACE",
		"max-upstream-connections":      "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS",
		"max-upstream-pending-requests": "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS",
		"max-upstream-requests":         "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS",
		"max-upstream-retries":          "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES",
	}
	var failed error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" || flag.Name == "version" {
			return
		}
		for _, variable := range []string{envPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), alternatives[flag.Name]} {
			value, found := lookupEnv(variable)
			if !found {
				continue
			}
			if err := flags.Set(flag.Name, value); err != nil {
				failed = errors.Join(failed, fmt.Errorf("environment variable %s: %w", variable, err))
			}
			return
		}
	})
	return failed
}

// programVersion returns the version of the release, or what the build information knows.
func programVersion() string {
	if version != "" {
		return version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}
