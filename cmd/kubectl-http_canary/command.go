package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// Exit codes.
const (
	exitFailed  = 1 // the command failed
	exitUsage   = 2 // the command line is invalid
	exitFinding = 3 // the command succeeded and found problems, or --for can no longer be met
)

var (
	// errUsage reports an invalid command line.
	errUsage = errors.New("invalid usage")
	// errFinding reports that a command has succeeded and printed problems.
	errFinding = errors.New("problems found")
)

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errFinding):
		return exitFinding
	default:
		return exitFailed
	}
}

// errorLine returns the line to print for err. It is empty if the command has already printed the problem.
func errorLine(err error) string {
	if err == nil || errors.Is(err, errFinding) {
		return ""
	}
	return "kubectl http-canary: " + err.Error()
}

// usageError marks err as an invalid command line. It returns nil for nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; see --help", errUsage, err)
}

// newCommand returns the root command.
func newCommand() *cobra.Command {
	var conn connection
	var show display
	root := &cobra.Command{
		Use:   "kubectl-http_canary",
		Short: "Install, check and watch canaries with HTTP traffic routing",
		Long: `kubectl http-canary installs, checks and uninstalls the Argo Rollouts traffic routers kedify/http
and argoproj-labs/gatewayAPI and the components that route and scale the traffic.

Exit codes: 0, success; 1, the command failed; 2, invalid usage; 3, problems found.`,
		Example: `  # Install both routers, in addition to plugins that are already registered
  kubectl http-canary install

  # Check the installation, and the applications in all namespaces
  kubectl http-canary doctor -A

  # List the canaries of all namespaces
  kubectl http-canary list -A

  # Watch the canary of Rollout shop
  kubectl http-canary status shop --watch

  # Run a throwaway canary on this cluster
  kubectl http-canary try`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl http-canary"},
		Version:       server.Version(version),
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.SetGlobalNormalizationFunc(formerFlags)
	conn.addFlags(root.PersistentFlags())
	show.addFlags(root)
	root.AddCommand(commands(&conn, &show)...)
	return root
}

// commands returns all commands. A new command is added here.
func commands(conn *connection, show *display) []*cobra.Command {
	return []*cobra.Command{
		newList(conn),
		newStatus(conn, show),
		newSplit(conn, show),
		newDoctor(conn, show),
		newExplain(show),
		newVersion(conn),
		newSupportBundle(conn),
		newDashboard(conn),
		newCleanup(conn),
		newInstall(conn, show),
		newUninstall(conn),
		newAdopt(conn),
		newTry(conn, show),
	}
}

// formerFlags accepts --time-limit, the former name of --timeout.
func formerFlags(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "time-limit" {
		name = "timeout"
	}
	return pflag.NormalizedName(name)
}

// noArgs rejects positional arguments.
func noArgs(command *cobra.Command, args []string) error {
	return usageError(cobra.NoArgs(command, args))
}
