package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// settings are the values of the flags.
type settings struct {
	kubeconfig string

	grpcAddress    string
	healthAddress  string
	metricsAddress string

	tls        scaler.TLS
	maxStreams uint32

	interceptorNamespace string
	interceptorCA        string
	interceptorToken     string

	shutdownDelay    time.Duration
	shutdownDeadline time.Duration

	logFormat string
	logLevel  string
	profiling bool
}

// envPrefix is the prefix of the environment variables of flags.
const envPrefix = "KEDIFY_SCALER_"

// newCommand returns the command line. A flag that is not set takes its value from the environment. run runs the scaler
// and logs to its last argument.
func newCommand(
	lookupEnv func(string) (string, bool), run func(context.Context, settings, io.Writer) error,
) *cobra.Command {
	var chosen settings
	command := &cobra.Command{
		Use:   program,
		Short: "KEDA external scaler for HTTP requests",
		Long: `scaler is an external scaler for KEDA triggers of the type external-push: it reports the HTTP requests of a
workload, and whether the workload should be active.

Every flag has an environment variable, which is used if the flag is not set: ` + envPrefix + ` followed by the
flag's name in capitals with underscores, such as ` + envPrefix + `LOG_LEVEL for --log-level.
POD_NAMESPACE, as the downward API sets it, sets --interceptor-namespace.`,
		Version:       server.Version(version),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PreRunE: func(command *cobra.Command, _ []string) error {
			alternatives := map[string]string{"interceptor-namespace": "POD_NAMESPACE"}
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

	flags.StringVar(&s.grpcAddress, "grpc-address", ":9090", "`address` for KEDA (gRPC)")
	flags.StringVar(&s.healthAddress, "health-address", ":8080", "`address` for /livez and /readyz")
	flags.StringVar(
		&s.metricsAddress, "metrics-address", ":2223", "`address` for /metrics (Prometheus) and /backends (analyses)",
	)

	flags.StringVar(&s.tls.Certificate, "tls-cert-file", "",
		"certificate `file` of the server, read at each connection; without it TLS is off")
	flags.StringVar(&s.tls.Key, "tls-key-file", "", "key `file` of the certificate")
	flags.StringVar(&s.tls.ClientCA, "tls-client-ca-file", "",
		"`file` with the CA certificates that verify client certificates; by default clients need none")
	flags.Uint32Var(&s.maxStreams, "max-streams", scaler.DefaultMaxStreams,
		"maximum `number` of concurrent calls on one connection, and of streams of all clients; KEDA has one for each "+
			"trigger")

	flags.StringVar(&s.interceptorNamespace, "interceptor-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the interceptors")
	flags.StringVar(&s.interceptorCA, "interceptor-ca", httpv1alpha1.InterceptorCA,
		"`name` of the ConfigMap in --interceptor-namespace with the CAs of the interceptors' certificate, which the agent "+
			"publishes; empty connects to interceptors without TLS and without a token")
	flags.StringVar(&s.interceptorToken, "interceptor-token-file", "/var/run/secrets/kedify/token",
		"`file` with the token for the interceptors, read at each connection")

	flags.DurationVar(&s.shutdownDelay, "shutdown-delay", 3*time.Second,
		"`time` to keep serving, unready, after SIGTERM")
	flags.DurationVar(
		&s.shutdownDeadline, "shutdown-deadline", 15*time.Second,
		"`time` allowed for graceful shutdown after --shutdown-delay",
	)

	flags.StringVar(&s.logFormat, "log-format", server.FormatJSON, "log `format`: json or text")
	flags.StringVar(&s.logLevel, "log-level", "info", "minimum log `level`: debug, info, warn or error")
	flags.BoolVar(&s.profiling, "pprof", false, "serve Go profiles under /debug/pprof/ on the metrics address")
}

// errSetting is in the chain of validation errors of flags.
var errSetting = errors.New("invalid setting")

// check validates what no component validates.
func (s *settings) check() error {
	for name, value := range map[string]time.Duration{
		"shutdown-delay": s.shutdownDelay, "shutdown-deadline": s.shutdownDeadline,
	} {
		if value < 0 {
			return fmt.Errorf("%w: --%s: %v is negative: use 0s or more", errSetting, name, value)
		}
	}
	if s.maxStreams < 1 {
		return fmt.Errorf("%w: --max-streams: %d is too small: use at least 1", errSetting, s.maxStreams)
	}
	if (s.tls.Certificate == "") != (s.tls.Key == "") || s.tls.ClientCA != "" && s.tls.Certificate == "" {
		return fmt.Errorf(
			"%w: --tls-cert-file and --tls-key-file need each other, and --tls-client-ca-file needs both", errSetting,
		)
	}
	return nil
}
