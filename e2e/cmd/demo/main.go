// Command demo shows and checks the canary guide on a real cluster under load. It uses only kubectl,
// kubectl-argo-rollouts and HTTP. See packages scenario and scaling.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scaling"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/screen"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// version is set by the linker.
var version = "dev"

func main() {
	// A closed output must not end the run.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	// The first signal starts the cleanup. Later signals end the process immediately, except SIGHUP: a terminal that
	// closes sends it repeatedly, and to the commands, too.
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo failed:")
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run: no deferred call is skipped
	}
}

// endSignals returns the signals that end a run with a cleanup. Under nohup they do not include SIGHUP.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// command returns the root command.
func command() *cobra.Command {
	o := options{version: version, settings: scenario.DefaultSettings(), scaling: scaling.DefaultSettings()}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the canary guide under load on a real cluster, and check it",
		Long: `demo starts or updates the local cluster with this checkout's programs, or uses the cluster that you name.
It applies the canary guide's objects, waits until the Ingress points at kedify-proxy, and sends an open-loop load to
the Ingress controller. It promotes one canary and aborts a second one. At each step it compares the requested weight,
the annotation, the ACKed weights, Envoy's weights and the measured requests. It fails on any failed request, wrong
split or left-over annotation. Then it changes the request rate of the app, and checks that the number of replicas
follows, in a canary on both sides.

In a cluster of yours without KEDA it applies an HTTPScaledObject and proxies, and sends the requests to the proxies.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.settings.Rate < scenario.MinRate || o.settings.Rate > scenario.MaxRate {
				return fmt.Errorf("--rate %v: it must be from %d to %d requests/s: each step measures %d of them",
					o.settings.Rate, scenario.MinRate, scenario.MaxRate, o.settings.Sample)
			}
			look := newScreen()
			o.screen, o.style = look.screen, look.style
			o.local.Terminal = provider.Terminal{In: os.Stdin, Err: progress(os.Stderr)}
			return o.run(c.Context())
		},
	}
	flags := c.Flags()
	flags.BoolVar(&o.keep, "keep", false, "leave everything running and print how to reach it")
	flags.StringVar((*string)(&o.only), "only", "", "one half of the demo: "+strings.Join(parts(), ", "))
	flags.StringVar(&o.crd, "crd", "",
		"`file` of another HTTPScaledObject CRD to run the demo with")
	flags.Float64Var(&o.settings.Rate, "rate", o.settings.Rate,
		"maximum `number` of requests per second; less on a slow machine")
	flags.StringVar(&o.provider, "provider", provider.NameEmbedded,
		"the cluster: "+strings.Join(provider.Names(), ", ")+"; existing is the one that $KUBECONFIG names")
	flags.StringVar(&o.local.Path, "localcluster", siblingPath("localcluster"), "the localcluster binary")
	flags.StringVar(&o.repo, "repo", ".", "the folder with examples/ and config/")
	flags.StringVar(&o.ingress, "ingress", "",
		"the address of the Ingress controller, as host:port; without it the one that the Ingress has in its status")
	// The error is always nil: the flags exist.
	_ = c.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(parts(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("provider",
		cobra.FixedCompletions(provider.Names(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// siblingPath returns the path of a program in the folder of this one.
func siblingPath(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// progress returns the output of commands. A terminal is passed unchanged, because a command may prompt for a password.
// Any other output is written by this process, because a command is killed by SIGPIPE when its pipe is closed.
func progress(out *os.File) io.Writer {
	if term.IsTerminal(int(out.Fd())) {
		return out
	}
	return bestEffortWriter{out}
}

// bestEffortWriter ignores write errors.
type bestEffortWriter struct{ out io.Writer }

// Write implements io.Writer.
func (d bestEffortWriter) Write(text []byte) (int, error) {
	_, _ = d.out.Write(text) // the output may be closed
	return len(text), nil
}

// screenOptions contains how the standard output is used.
type screenOptions struct {
	screen shell.Screen
	style  report.Style
}

// newScreen returns a live screen with colors on a terminal, and a plain one otherwise. It uses no colors if NO_COLOR
// is set (https://no-color.org).
func newScreen() screenOptions {
	out := int(os.Stdout.Fd())
	live := term.IsTerminal(out) && os.Getenv("TERM") != "dumb"
	size := func() (columns, rows int) {
		columns, rows, err := term.GetSize(out)
		if err != nil {
			return 100, 40
		}
		return columns, rows
	}
	return screenOptions{
		screen: screen.New(os.Stdout, live, size),
		style:  report.Style{Color: live && os.Getenv("NO_COLOR") == ""},
	}
}

// errInterrupted means that the user interrupted the run.
var errInterrupted = errors.New("interrupted")
