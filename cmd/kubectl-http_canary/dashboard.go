package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/dashboard"
)

// newDashboard returns the command that opens the live page of the interceptor.
func newDashboard(conn *connection) *cobra.Command {
	var port int
	var noOpen bool
	var timeout time.Duration
	var interceptors string
	command := &cobra.Command{
		Use:   "dashboard [NAME]",
		Short: "Open the live page: all objects, or one canary",
		Long: `dashboard forwards a local port to a Ready interceptor by kubectl port-forward, prints the address of its live
page, and opens it in a browser if the output is a terminal. It connects again when the Pod ends; the address stays.

NAME is an HTTPScaledObject, an InterceptorRoute or a Rollout. Without it, the page shows all objects, or those of
--namespace. This requires permission to list Pods and to create pods/portforward in the namespace of the
interceptor.`,
		Example: `  kubectl http-canary dashboard
  kubectl http-canary dashboard shop --namespace shop
  kubectl http-canary dashboard --port 9091 --no-open`,
		Args:              atMostOne,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			options, err := conn.dashboard(command, interceptors, args)
			if err != nil {
				return err
			}
			options.Timeout = timeout
			if options.Local = port; !noOpen && isTerminal(os.Stdout) {
				options.Open = func(address string) { openBrowser(command.Context(), address) }
			}
			return dashboard.Run(command.Context(), options)
		},
	}
	command.Flags().IntVar(&port, "port", 0, "local port (default: a free one)")
	command.Flags().BoolVar(&noOpen, "no-open", false, "do not open a browser")
	command.Flags().StringVar(&interceptors, "interceptor-namespace", httpv1alpha1.DefaultInterceptorNamespace,
		"`namespace` of the interceptor")
	addTimeout(command.Flags(), &timeout, readTimeout, "maximum `time` until the page is open")
	return command
}

// atMostOne rejects more than one positional argument.
func atMostOne(command *cobra.Command, args []string) error {
	return usageError(cobra.MaximumNArgs(1)(command, args))
}

// dashboard returns the options of the live page.
func (w *connection) dashboard(command *cobra.Command, interceptors string, args []string) (dashboard.Options, error) {
	namespace, isGiven, err := w.config().Namespace()
	if err != nil {
		return dashboard.Options{}, fmt.Errorf("kubeconfig: namespace: %w", err)
	}
	client, err := w.client()
	if err != nil {
		return dashboard.Options{}, err
	}
	kubectl, err := dashboard.NewKubectl(interceptors, connectionFlags(command))
	options := dashboard.Options{
		Pods: func(ctx context.Context) ([]string, error) {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			return dashboard.ReadyPods(ctx, client, interceptors)
		},
		Forward: kubectl.Forward, Out: command.OutOrStdout(), Log: command.ErrOrStderr(),
	}
	if len(args) > 0 {
		options.Name = args[0]
	}
	if isGiven || options.Name != "" {
		options.Namespace = namespace
	}
	return options, err
}

// connectionFlags returns the flags of the connection on the command line, except the namespace. kubectl has the same,
// and no flag for colors.
func connectionFlags(command *cobra.Command) (flags []string) {
	command.InheritedFlags().Visit(func(flag *pflag.Flag) {
		list, isList := flag.Value.(pflag.SliceValue)
		switch {
		case flag.Name == "namespace" || flag.Name == "color":
		case isList:
			for _, value := range list.GetSlice() {
				flags = append(flags, "--"+flag.Name+"="+value)
			}
		default:
			flags = append(flags, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	return flags
}

// isTerminal reports whether a file is a terminal.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// openBrowser opens an address in the browser of the desktop. It ignores errors: the address was printed.
func openBrowser(ctx context.Context, address string) {
	name, arguments := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, arguments = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	if command := exec.CommandContext(ctx, name, arguments...); command.Start() == nil { //nolint:gosec // fixed programs
		go func() { _ = command.Wait() }()
	}
}
