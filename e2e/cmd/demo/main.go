// Command demo shows and checks the canary guide on a real cluster under load.
// It is driven only by kubectl, kubectl-argo-rollouts and HTTP; see package
// scenario for what it does.
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
	// Output that nobody reads any more is no reason to end.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	// The first signal cleans up; from then on the next one ends at once. But a
	// terminal that goes away says so more than once, also to the commands.
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo failed:")
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run: nothing deferred is lost
	}
}

// endings are the signals that end a run in order. One that was started to
// outlive its terminal (nohup) does.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// command is the command line.
func command() *cobra.Command {
	o := options{version: version, settings: scenario.DefaultSettings(), scaling: scaling.DefaultSettings()}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the canary guide under load on a real cluster, and check it",
		Long: `demo brings the local cluster up, with this checkout's programs in it, or takes the one that you name. It applies the canary
guide's objects, waits until its Ingress leads to kedify-proxy, keeps an open-loop load on the Ingress controller and
drives one canary to its end and a second one into an abort. At each step it compares the weight that was asked for, the
annotation, what the proxies have acknowledged, what Envoy runs, and where the requests went. Any failed request, wrong
split or left-over annotation makes it fail. Then the same app gets fewer requests, and more: its replicas follow them, in
a canary on both sides.

A cluster of yours without KEDA gets an HTTPScaledObject and proxies by hand, and requests go to the proxies.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.settings.Rate < scenario.MinRate || o.settings.Rate > scenario.MaxRate {
				return fmt.Errorf("--rate %v: it must be from %d to %d requests/s: each step is judged by %d of them",
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
		"the file of another owner's definition of HTTPScaledObject, to show canaries on that")
	flags.Float64Var(&o.settings.Rate, "rate", o.settings.Rate,
		"requests per second at most; a slow machine gets what it carries")
	flags.StringVar(&o.provider, "provider", provider.NameEmbedded,
		"the cluster: "+strings.Join(provider.Names(), ", ")+"; existing is the one that $KUBECONFIG names")
	flags.StringVar(&o.local.Path, "localcluster", siblingPath("localcluster"), "the localcluster binary")
	flags.StringVar(&o.repo, "repo", ".", "the folder with examples/ and config/")
	flags.StringVar(&o.ingress, "ingress", "",
		"the address of the Ingress controller, as host:port; without it the one that the Ingress has in its status")
	// The names are fixed lists: nothing can be wrong with the flags.
	_ = c.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(parts(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("provider",
		cobra.FixedCompletions(provider.Names(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// siblingPath is the path of a program in the folder of this one.
func siblingPath(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// progress is where commands put what they say. A terminal is handed to them as
// it is: they may ask for a password there. Anything else is written to by this
// process, because a command dies of a pipe that nobody reads any more.
func progress(out *os.File) io.Writer {
	if term.IsTerminal(int(out.Fd())) {
		return out
	}
	return bestEffortWriter{out}
}

// bestEffortWriter writes and does not hear whether that worked.
type bestEffortWriter struct{ out io.Writer }

// Write implements io.Writer.
func (d bestEffortWriter) Write(text []byte) (int, error) {
	_, _ = d.out.Write(text) // nobody is left to be told
	return len(text), nil
}

// screenOptions is how the standard output is used.
type screenOptions struct {
	screen shell.Screen
	style  report.Style
}

// newScreen is live with colours on a terminal and plain elsewhere, without
// colours where the user wants none (https://no-color.org).
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

// errInterrupted ends a run that the user has interrupted.
var errInterrupted = errors.New("interrupted")
