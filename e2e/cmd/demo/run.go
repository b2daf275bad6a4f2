package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// options are what the flags say, and where the demo shows itself.
type options struct {
	version  string // of the code that is shown
	keep     bool
	provider string
	local    provider.LocalCluster
	settings scenario.Settings
	screen   scenario.Screen
	style    report.Style
}

// run is the whole demo: cluster up, the scenario, the summary, and the end.
func (o *options) run(ctx context.Context) error {
	o.settings.Begun = time.Now()
	if err := o.complete(); err != nil {
		return err
	}
	from, err := provider.New(o.provider, o.providing())
	if err != nil {
		return err
	}
	o.screen.Print(o.style.Heading("Canary demo, " + o.version))
	cluster, err := o.clusterUp(ctx, from)
	if err == nil {
		err = o.present(ctx, cluster)
	}
	return errors.Join(o.interrupted(ctx, err), o.end(context.WithoutCancel(ctx), from, cluster))
}

// providing is what the provider of the cluster is made from.
func (o *options) providing() provider.Options {
	o.local.Repo, o.local.Patience = o.settings.Repo, o.settings.Command
	return provider.Options{
		Local: o.local, Environ: os.Environ(), Command: o.settings.Command,
		Cache:  func(c *provider.Cluster) string { return filepath.Join(folder(c), "cache") },
		Report: func(line string) { o.screen.Print(line) },
	}
}

// complete checks that the project is where the flag says.
func (o *options) complete() error {
	for _, name := range []string{"examples/argo-rollouts-canary/manifests.yaml", "config/kedify-proxy"} {
		if _, err := os.Stat(filepath.Join(o.settings.Repo, name)); err != nil {
			return fmt.Errorf("--repo %s is not the folder of the project: %w", o.settings.Repo, err)
		}
	}
	return nil
}

// folder is the demo's own folder in the cluster's run directory. It goes with
// the cluster, however the demo ends.
func folder(c *provider.Cluster) string { return filepath.Join(filepath.Dir(c.Logs), "demo") }

// clusterUp makes the cluster ready.
func (o *options) clusterUp(ctx context.Context, from provider.Provider) (*provider.Cluster, error) {
	cluster, err := from.Up(ctx, provider.Wishes{Keep: o.keep})
	if err != nil {
		return nil, err
	}
	o.patient(cluster)
	return cluster, nil
}

// patient gives a run more time where the cluster took long to start.
func (o *options) patient(cluster *provider.Cluster) {
	usual := o.settings.Patience
	o.settings = o.settings.Scaled(cluster.StartSeconds)
	if o.settings.Patience > usual {
		o.screen.Print(fmt.Sprintf("It took %.1f s to start: this run waits for up to %s where others wait for %s.",
			cluster.StartSeconds, report.Seconds(o.settings.Patience), report.Seconds(usual)))
	}
}

// present runs the scenario and prints its summary.
func (o *options) present(ctx context.Context, cluster *provider.Cluster) error {
	o.settings.Proxy = cluster.Addresses[provider.ProxyAddress]
	outcome, err := scenario.Run(ctx, cluster, o.screen, o.style, o.settings)
	if len(outcome.Rows) > 0 {
		o.screen.Print("", o.style.Heading("Summary"))
		o.screen.Print(o.style.Table(outcome.Rows)...)
		o.screen.Print("")
		o.screen.Print(o.style.Checks(outcome.Checks)...)
		o.screen.Print("", fmt.Sprintf("%s to a running canary, measured; %s in all; requests started at most %s late.",
			report.Seconds(outcome.RunningCanary), report.Seconds(outcome.Elapsed), report.Latency(outcome.Totals.Lag)))
	}
	if err != nil && ctx.Err() == nil {
		o.screen.Print("", o.style.Bad("Failed: ")+err.Error())
		scenario.Diagnose(ctx, cluster, o.screen, o.style, o.settings.Command)
	}
	return err
}

// interrupted replaces the errors of whatever was cut off by a signal.
func (*options) interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// end leaves everything for the user, or takes away what the demo has brought:
// the cluster, or else the namespace.
func (o *options) end(ctx context.Context, from provider.Provider, cluster *provider.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, o.settings.Cleanup)
	defer cancel()
	switch {
	case o.keep && cluster != nil:
		o.screen.Print(append([]string{""}, o.kept(cluster)...)...)
		return nil
	case from.Owns():
		// The namespace goes with its cluster.
		o.screen.Print("")
		return from.Down(ctx)
	case cluster != nil:
		o.screen.Print("", "The namespace "+scenario.Namespace+" is deleted; the cluster, which ran before, goes on.")
		return scenario.Remove(ctx, cluster, o.settings.Delete)
	default:
		return nil // nothing was begun
	}
}

// kept says how to reach what is left running, and how to end it.
func (o *options) kept(cluster *provider.Cluster) []string {
	lines := []string{o.style.Heading("Everything is left running.")}
	if _, port, err := net.SplitHostPort(cluster.Addresses[provider.ProxyAddress]); err == nil {
		lines = append(lines, "  in a browser:  http://"+scenario.BrowserHost+":"+port+"/")
	}
	end := "kubectl delete ns " + scenario.Namespace
	if o.provider == provider.NameEmbedded {
		lines = append(lines, "  in a shell:    export KUBECONFIG="+cluster.Kubeconfig+" PATH="+cluster.Bin+`:"$PATH"`)
		end = "make cluster-down"
	}
	return append(lines,
		"  next canary:   kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:green",
		"  take it down:  "+end,
	)
}
