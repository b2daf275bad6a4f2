package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// The exit codes.
const (
	exitFailed  = 1 // the command failed
	exitUsage   = 2 // the command line is invalid
	exitFinding = 3 // the command succeeded and found problems
)

var (
	// errUsage says that the command line means nothing.
	errUsage = errors.New("invalid usage")
	// errFinding says that a command has done its work and found something, which it has shown.
	errFinding = errors.New("problems found")
)

// exitCode is that of a process whose command ended with err.
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

// complaint is what is left to say about err; empty where a command has said it.
func complaint(err error) string {
	if err == nil || errors.Is(err, errFinding) {
		return ""
	}
	return "kubectl http-canary: " + err.Error()
}

// usage makes err one of the command line.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; see --help", errUsage, err)
}

// newCommand returns the command line.
func newCommand() *cobra.Command {
	var way way
	root := &cobra.Command{
		Use:   "kubectl-http_canary",
		Short: "Install, check and watch canaries with HTTP traffic routing",
		Long: `kubectl http-canary installs, checks and uninstalls the Argo Rollouts traffic routers kedify/http and
argoproj-labs/gatewayAPI and the components that route and scale the traffic.

Exit codes: 0, success; 1, the command failed; 2, invalid usage; 3, problems found.`,
		Example: `  # Install both routers, in addition to plugins that are already registered
  kubectl http-canary install

  # Check the installation
  kubectl http-canary doctor

  # Show the traffic split of Rollout shop
  kubectl http-canary status shop

  # Watch it during a canary
  kubectl http-canary split shop --watch

  # Run a throwaway canary on this cluster
  kubectl http-canary try`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl http-canary"},
		Version:       server.Version(version),
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	way.addFlags(root.PersistentFlags())
	root.AddCommand(newDoctor(&way), newStatus(&way), newSplit(&way), newCleanup(&way), newInstall(&way), newUninstall(&way), newAdopt(&way), newTry(&way))
	return root
}

// noArgs refuses arguments.
func noArgs(command *cobra.Command, args []string) error { return usage(cobra.NoArgs(command, args)) }

// output is the form in which a command prints.
type output string

// The forms.
const (
	outputText output = ""
	outputWide output = "wide"
	outputJSON output = "json"
	outputYAML output = "yaml"
)

// outputs are the forms that have a name.
func outputs() []string { return []string{string(outputJSON), string(outputYAML), string(outputWide)} }

// addFlag declares the flag by which a form is chosen.
func (o *output) addFlag(command *cobra.Command) {
	command.Flags().VarP(o, "output", "o", "output `format`: "+strings.Join(outputs(), ", ")+" (default text)")
	// The error is for an unknown flag.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs(), cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (o *output) String() string { return string(*o) }

// Type implements pflag.Value.
func (*output) Type() string { return "format" }

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if !slices.Contains(outputs(), text) {
		return fmt.Errorf("must be one of %s", strings.Join(outputs(), ", "))
	}
	*o = output(text)
	return nil
}
