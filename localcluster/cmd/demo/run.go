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

// options are what the flags say, and where the demo shows itself.
type options struct {
	version      string // of the code that is shown
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
	ours    bool
	runner  kube.Runner
}

// run is the whole demo: cluster up, the scenario, the summary, and the end.
func (o *options) run(ctx context.Context) error {
	o.settings.Begun = time.Now()
	if err := o.complete(); err != nil {
		return err
	}
	o.screen.Print(o.style.Heading("Canary demo, " + o.version))
	s, err := o.clusterUp(ctx)
	if err == nil {
		err = o.present(ctx, s)
	}
	return errors.Join(o.interrupted(ctx, err), o.end(context.WithoutCancel(ctx), s))
}

// local is the command localcluster.
func (o *options) local() kube.LocalCluster {
	return kube.LocalCluster{Path: o.localcluster, Repo: o.settings.Repo, Terminal: o.terminal, Patience: o.settings.Command}
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
func folder(cluster kube.Cluster) string { return filepath.Join(filepath.Dir(cluster.Logs), "demo") }

// clusterUp starts the cluster, or brings this checkout's programs into one that
// runs.
func (o *options) clusterUp(ctx context.Context) (session, error) {
	var s session
	before, err := o.local().Status(ctx)
	if err != nil {
		return s, err
	}
	s.ours = before.State == kube.Stopped || before.State == kube.Broken || before.Transient
	o.screen.Print(beginning(before.State, s.ours))
	if err := o.local().Up(ctx, !o.keep); err != nil {
		return s, err
	}
	if s.cluster, err = o.local().Status(ctx); err != nil {
		return s, err
	}
	if s.cluster.State != kube.Running {
		return s, fmt.Errorf("the local cluster is %s after its start", s.cluster.State)
	}
	o.screen.Print(fmt.Sprintf("The local cluster is up after %s.", report.Seconds(time.Since(o.settings.Begun))))
	o.patient(s.cluster)
	s.runner = kube.Exec{Env: kube.Environment(os.Environ(), s.cluster.Bin, s.cluster.Kubeconfig, filepath.Join(folder(s.cluster), "cache"))}
	return s, nil
}

// beginning says what becomes of a cluster in that state.
func beginning(state string, ours bool) string {
	switch {
	case state != kube.Running:
		return fmt.Sprintf("The local cluster is %s; it is started.", state)
	case ours:
		return "The local cluster runs, left by an earlier demo; this checkout's programs are brought into it, and it is taken down at the end."
	default:
		return "The local cluster runs; this checkout's programs are brought into it."
	}
}

// patient gives a run more time where the cluster took long to start.
func (o *options) patient(cluster kube.Cluster) {
	usual := o.settings.Patience
	o.settings = o.settings.Scaled(cluster.StartSeconds)
	if o.settings.Patience > usual {
		o.screen.Print(fmt.Sprintf("It took %.1f s to start: this run waits for up to %s where others wait for %s.",
			cluster.StartSeconds, report.Seconds(o.settings.Patience), report.Seconds(usual)))
	}
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
		scenario.Diagnose(ctx, s.runner, o.screen, o.style, o.settings.Command)
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
func (o *options) end(ctx context.Context, s session) error {
	ctx, cancel := context.WithTimeout(ctx, o.settings.Cleanup)
	defer cancel()
	switch {
	case o.keep && s.runner != nil:
		o.screen.Print(append([]string{""}, o.kept(s)...)...)
		return nil
	case s.ours:
		// The namespace goes with its cluster.
		return o.takeDown(ctx, s.runner != nil)
	case s.runner != nil:
		o.screen.Print("", "The namespace "+scenario.Namespace+" is deleted; the cluster, which ran before, goes on.")
		return scenario.Remove(ctx, s.runner, o.settings.Delete)
	default:
		return nil // nothing was begun
	}
}

// takeDown ends the cluster. A start that failed has ended it already; of that
// one the logs are left, for the user.
func (o *options) takeDown(ctx context.Context, started bool) error {
	cluster, err := o.local().Status(ctx)
	if err == nil && (cluster.State == kube.Stopped || cluster.State == kube.Broken && !started) {
		o.screen.Print("", "No local cluster runs.")
		return nil
	}
	o.screen.Print("", "The local cluster is taken down.")
	return errors.Join(err, o.local().Down(ctx))
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
