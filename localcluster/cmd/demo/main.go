// Command demo shows and checks the canary guide on a real cluster under load.
// It is driven only by kubectl, kubectl-argo-rollouts and HTTP; see package
// scenario for what it does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/kube"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/report"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/screen"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal cleans up; from then on the next one ends at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo failed:")
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run: nothing deferred is lost
	}
}

// The load has to be high enough for a sample and a fresh one of twice the
// size to fit into the guide's pause of 30 s, and low enough for a small machine.
const (
	minRate = 220
	maxRate = 2000
)

// command is the command line.
func command() *cobra.Command {
	o := options{settings: scenario.DefaultSettings()}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the canary guide under load on the local cluster, and check it",
		Long: `demo brings the local cluster up if it isn't running, applies the canary guide's objects,
keeps an open-loop load on kedify-proxy and drives one canary to its end and a second one
into an abort. At each step it compares the weight that was asked for, the annotation, what the
proxies have acknowledged, what Envoy runs, and where the requests went. Any failed request, wrong split or left-over
annotation makes it fail.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.settings.Rate < minRate || o.settings.Rate > maxRate {
				return fmt.Errorf("--rate %v: it must be from %d to %d, so that %d requests and a fresh sample of twice as many fit into the guide's pause of 30 s",
					o.settings.Rate, minRate, maxRate, o.settings.Sample)
			}
			look := newScreen()
			o.screen, o.style = look.screen, look.style
			o.terminal = kube.Terminal{In: os.Stdin, Err: os.Stderr}
			return o.run(c.Context())
		},
	}
	flags := c.Flags()
	flags.BoolVar(&o.keep, "keep", false, "leave everything running and print how to reach it")
	flags.Float64Var(&o.settings.Rate, "rate", o.settings.Rate, "requests per second")
	flags.StringVar(&o.localcluster, "localcluster", beside("localcluster"), "the localcluster binary")
	flags.StringVar(&o.settings.Repo, "repo", o.settings.Repo, "the folder with examples/ and config/")
	return c
}

// beside is the path of a program in the folder of this one.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// look is how the standard output is used.
type look struct {
	screen scenario.Screen
	style  report.Style
}

// newScreen is live with colours on a terminal and plain elsewhere, without
// colours where the user wants none (https://no-color.org).
func newScreen() look {
	out := int(os.Stdout.Fd())
	live := term.IsTerminal(out) && os.Getenv("TERM") != "dumb"
	size := func() (columns, rows int) {
		columns, rows, err := term.GetSize(out)
		if err != nil {
			return 100, 40
		}
		return columns, rows
	}
	return look{
		screen: screen.New(os.Stdout, live, size),
		style:  report.Style{Color: live && os.Getenv("NO_COLOR") == ""},
	}
}

// errInterrupted ends a run that the user has interrupted.
var errInterrupted = errors.New("interrupted")
