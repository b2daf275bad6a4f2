package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/kube"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/report"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/scenario"
)

// cleanupTimeout bounds the end of a run, however it came about.
const cleanupTimeout = 3 * time.Minute

// options are what the flags say, and where the demo shows itself.
type options struct {
	keep         bool
	localcluster string
	settings     scenario.Settings
	screen       scenario.Screen
	style        report.Style
	terminal     kube.Terminal
}

// session is a cluster that is up, and whether it is ours to take down.
type session struct {
	cluster kube.Cluster
	started bool
	runner  kube.Runner
}

// run is the whole demo: cluster up, the scenario, the summary, and the end.
func (o *options) run(ctx context.Context) error {
	o.settings.Begun = time.Now()
	if err := o.complete(); err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "canary-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for kubectl's caches: %w", err)
	}
	defer func() { _ = os.RemoveAll(cache) }() // a cache
	local := kube.LocalCluster{Path: o.localcluster, Repo: o.settings.Repo, Terminal: o.terminal}
	s, err := o.clusterUp(ctx, local, cache)
	if err == nil {
		err = o.present(ctx, s)
	}
	return errors.Join(o.interrupted(ctx, err), o.end(context.WithoutCancel(ctx), local, s))
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

// clusterUp starts the cluster unless it runs.
func (o *options) clusterUp(ctx context.Context, local kube.LocalCluster, cache string) (session, error) {
	var s session
	cluster, err := local.Status(ctx)
	if err != nil {
		return s, err
	}
	if cluster.State != kube.Running {
		o.screen.Print(fmt.Sprintf("The local cluster is %s; it is started.", cluster.State))
		s.started = true
		if err := local.Up(ctx); err != nil {
			return s, err
		}
		if cluster, err = local.Status(ctx); err != nil {
			return s, err
		}
	}
	if cluster.State != kube.Running {
		return s, fmt.Errorf("the local cluster is %s after its start", cluster.State)
	}
	o.screen.Print(fmt.Sprintf("The local cluster is up after %s.", report.Seconds(time.Since(o.settings.Begun))))
	s.cluster = cluster
	s.runner = kube.Exec{Env: kube.Environment(os.Environ(), cluster.Bin, cluster.Kubeconfig, cache)}
	return s, nil
}

// present runs the scenario and prints its summary.
func (o *options) present(ctx context.Context, s session) error {
	o.settings.Proxy = s.cluster.Addresses.Proxy
	outcome, err := scenario.Run(ctx, s.runner, o.screen, o.style, o.settings)
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
		scenario.Diagnose(ctx, s.runner, o.screen, o.style)
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
func (o *options) end(ctx context.Context, local kube.LocalCluster, s session) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	switch {
	case o.keep && s.runner != nil:
		o.screen.Print(append([]string{""}, o.kept(s)...)...)
		return nil
	case s.started:
		// The namespace goes with its cluster.
		o.screen.Print("", "The local cluster is taken down.")
		return local.Down(ctx)
	case s.runner != nil:
		o.screen.Print("", "The namespace "+scenario.Namespace+" is deleted; the cluster, which ran before, goes on.")
		return scenario.Remove(ctx, s.runner)
	default:
		return nil // nothing was begun
	}
}

// kept says how to reach what is left running, and how to end it.
func (o *options) kept(s session) []string {
	_, port, err := net.SplitHostPort(s.cluster.Addresses.Proxy)
	if err != nil {
		port = s.cluster.Addresses.Proxy
	}
	return []string{
		o.style.Heading("Everything is left running."),
		"  in a browser:  http://" + scenario.BrowserHost + ":" + port + "/",
		"  in a shell:    export KUBECONFIG=" + s.cluster.Kubeconfig + " PATH=" + s.cluster.Bin + `:"$PATH"`,
		"  next canary:   kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:green",
		"  take it down:  make cluster-down",
	}
}
