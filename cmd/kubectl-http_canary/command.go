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
	exitFailed  = 1 // what was asked for could not be done
	exitUsage   = 2 // the command line means nothing
	exitFinding = 3 // it was done, and something is to be done about what it found
)

var (
	// errUsage says that the command line means nothing.
	errUsage = errors.New("usage")
	// errFinding says that a command has done its work and found something, which it has shown.
	errFinding = errors.New("there are findings")
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
		Short: "Install, examine and follow canaries that share HTTP requests",
		Long: `kubectl http-canary installs the traffic routers kedify/http and argoproj-labs/gatewayAPI of Argo Rollouts and what
carries out their weights, looks at both, and takes them away again.

Exit codes: 0, all is well; 1, it could not be done; 2, the command line means nothing; 3, there are findings.`,
		Example: `  # Install both routers beside the plugins that are there
  kubectl http-canary install

  # What is wrong with this installation?
  kubectl http-canary doctor

  # How are the requests of Rollout shop shared?
  kubectl http-canary status shop

  # Follow that through a canary
  kubectl http-canary split shop --watch

  # Does a canary work on this cluster?
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
	command.Flags().VarP(o, "output", "o", "`form` of the output: "+strings.Join(outputs(), ", ")+"; text by default")
	// It fails for a flag that does not exist.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs(), cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (o *output) String() string { return string(*o) }

// Type implements pflag.Value.
func (*output) Type() string { return "form" }

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if !slices.Contains(outputs(), text) {
		return fmt.Errorf("write one of %s", strings.Join(outputs(), ", "))
	}
	*o = output(text)
	return nil
}
