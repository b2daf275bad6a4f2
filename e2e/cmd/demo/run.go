package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scaling"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// options contains the values of the flags and the outputs of the demo.
type options struct {
	version  string // version of the code
	keep     bool
	provider string
	local    provider.LocalCluster
	repo     string // the folder with examples/, config/ and e2e/demo/
	ingress  string // address of the Ingress controller, if the user sets it
	settings scenario.Settings
	only     part
	crd      string // file of a CRD that replaces this project's
	scaling  scaling.Settings
	screen   shell.Screen
	style    report.Style
}

// part is a half of the demo.
type part string

// The halves: a canary under a measured load, and replicas that follow the requests. The zero value is both.
const (
	canaryPart  part = "canary"
	scalingPart part = "scaling"
)

// parts returns the names of the halves.
func parts() []string { return []string{string(canaryPart), string(scalingPart)} }

// has reports whether a half runs.
func (o *options) has(p part) bool { return o.only == "" || o.only == p }

// spec returns the cluster's spec for a half. Nothing is installed into the user's own cluster. The canary half needs
// KEDA's API, from which the agent creates the HTTPScaledObject, but not KEDA itself. So it starts before KEDA is
// compiled, which happens afterwards. In parallel, the compilation would slow down the Pods even at the lowest
// priority: the kernel first divides CPU time among cgroups, and each Pod has its own.
func (o *options) spec(p part) provider.Spec {
	spec := provider.Spec{Keep: o.keep}
	if o.provider == provider.NameEmbedded {
		spec.Addons = []string{map[part]string{canaryPart: "keda-api", scalingPart: "keda"}[p], "traefik"}
		spec.Forwards = map[string]string{provider.IngressAddress: provider.IngressTarget}
	}
	return spec
}

// embeddedRest is three syncs of the embedded cluster's HorizontalPodAutoscaler, which syncs every 2 s. The default is
// 15 s.
const embeddedRest = 6 * time.Second

// run runs the complete demo: it starts the cluster, runs the halves, prints the summary and cleans up.
func (o *options) run(ctx context.Context) error {
	o.settings.Started = time.Now()
	if err := o.complete(); err != nil {
		return err
	}
	from, err := provider.New(o.provider, o.providerOptions())
	if err != nil {
		return err
	}
	o.screen.Print(o.style.Heading("Canary demo, " + o.version))
	missing, err := o.missing(ctx)
	if err != nil {
		return o.interrupted(ctx, err)
	}
	o.screen.Print(append(o.announcement(o.planSteps(missing)), "")...)
	cluster, err := o.clusterUp(ctx, from)
	if err == nil {
		err = o.present(ctx, from, cluster)
	}
	return errors.Join(o.interrupted(ctx, err), o.cleanUp(context.WithoutCancel(ctx), from, cluster))
}

// providerOptions returns the options of the cluster's provider.
func (o *options) providerOptions() provider.Options {
	o.local.Repo, o.local.Patience = o.repo, o.settings.Command
	return provider.Options{
		Local: o.local, Environ: os.Environ(), Command: o.settings.Command,
		Cache:  func(c *provider.Cluster) string { return filepath.Join(folder(c), "cache") },
		Report: func(line string) { o.screen.Print(line) },
	}
}

// complete checks the flags and finds the root folder of the repository.
func (o *options) complete() error {
	if o.only != "" && !slices.Contains(parts(), string(o.only)) {
		return fmt.Errorf("--only %q: there are %s", o.only, strings.Join(parts(), " and "))
	}
	for _, name := range []string{"examples/argo-rollouts-canary/manifests.yaml", "config/kedify-proxy"} {
		if _, err := os.Stat(filepath.Join(o.repo, name)); err != nil {
			return fmt.Errorf("--repo %s is not the folder of the project: %w", o.repo, err)
		}
	}
	if o.provider == provider.NameEmbedded {
		o.scaling.StablePeriod = embeddedRest
	}
	return nil
}

// folder returns the demo's folder in the cluster's run directory. It is deleted with the cluster, however the demo
// ends.
func folder(c *provider.Cluster) string { return filepath.Join(filepath.Dir(c.Logs), "demo") }

// clusterUp starts the cluster and waits until it is ready.
func (o *options) clusterUp(ctx context.Context, from provider.Provider) (*provider.Cluster, error) {
	first := canaryPart
	if !o.has(first) {
		first = scalingPart
	}
	cluster, err := from.Up(ctx, o.spec(first))
	if err != nil {
		return nil, err
	}
	o.scaleWaits(cluster)
	return cluster, o.applyCRD(ctx, from, cluster)
}

// applyCRD replaces this project's CRD HTTPScaledObject with that of another owner, such as KEDA's http-add-on, if the
// user specifies one.
func (o *options) applyCRD(ctx context.Context, from provider.Provider, cluster *provider.Cluster) error {
	if o.crd == "" {
		return nil
	}
	if !from.Owns() {
		return fmt.Errorf("%w: --crd changes a definition that others use: it is for a cluster that the demo starts; run "+
			"make cluster-down first", provider.ErrUnsupported)
	}
	_, err := o.terminal(cluster).Show(ctx, "kubectl", "replace", "-f", o.crd)
	return err
}

// scaleWaits extends the time limits if the cluster was slow to start.
func (o *options) scaleWaits(cluster *provider.Cluster) {
	usual := o.settings.Patience
	o.settings = o.settings.Scaled(cluster.StartSeconds)
	o.scaling = o.scaling.Scaled(float64(o.settings.Patience) / float64(usual))
	if o.settings.Patience > usual {
		o.screen.Print(fmt.Sprintf("It took %.1f s to start: this run waits for up to %s where others wait for %s.",
			cluster.StartSeconds, report.Seconds(o.settings.Patience), report.Seconds(usual)))
	}
}

// terminal returns the shell of the demo's commands.
func (o *options) terminal(cluster *provider.Cluster) shell.Shell {
	return shell.Shell{Runner: cluster, Screen: o.screen, Style: o.style, Within: o.settings.Command}
}

// present applies the guide's objects, runs the halves on them in order, and prints the summary.
func (o *options) present(ctx context.Context, from provider.Provider, cluster *provider.Cluster) error {
	byHand, err := o.isManual(ctx, cluster)
	g := o.guide(cluster, byHand)
	if err == nil {
		err = o.prepare(ctx, cluster, g)
	}
	var outcome scenario.Outcome
	if err == nil && o.has(canaryPart) {
		outcome, err = o.measure(ctx, cluster, g)
	}
	var followed scaling.Outcome
	if err == nil && o.has(scalingPart) && !byHand {
		followed, err = o.follow(ctx, from, cluster, g)
	}
	o.summary(outcome, followed)
	if err != nil && ctx.Err() == nil {
		o.screen.Print("", o.style.Bad("Failed: ")+err.Error())
		o.screen.Print(brokenInvariants(err, append(outcome.Checks, followed.Checks...))...)
		scenario.Diagnose(ctx, o.terminal(cluster))
	}
	return err
}

// measure runs the first half, in which replicas do not follow the requests.
func (o *options) measure(ctx context.Context, cluster *provider.Cluster,
	g guide.Guide,
) (outcome scenario.Outcome, err error) {
	if !g.Manual {
		err = g.Target(ctx, guide.MeasuringTarget)
	}
	if err == nil {
		outcome, err = scenario.Run(ctx, cluster, o.screen, o.style, o.settings)
	}
	if err == nil && !g.Manual && o.has(scalingPart) {
		o.scaling.Stable, o.scaling.Canary = "yellow", "green" // yellow is the stable version after the canaries
		err = g.Target(ctx, guide.GuidesTarget)
	}
	return outcome, err
}

// follow runs the second half. The embedded cluster gets KEDA now.
func (o *options) follow(ctx context.Context, from provider.Provider, cluster *provider.Cluster,
	g guide.Guide,
) (scaling.Outcome, error) {
	if o.provider == provider.NameEmbedded && o.has(canaryPart) {
		o.screen.Print("", "The scaling half needs KEDA: it is built if it is missing, and added to the cluster.")
		if _, err := from.Up(ctx, o.spec(scalingPart)); err != nil {
			return scaling.Outcome{}, err
		}
	}
	if err := g.Scales(ctx); err != nil {
		return scaling.Outcome{}, err
	}
	return scaling.New(o.terminal(cluster), o.scaling).Run(ctx)
}

// guide returns the guide for the cluster.
func (o *options) guide(cluster *provider.Cluster, byHand bool) guide.Guide {
	return guide.Guide{
		Shell: o.terminal(cluster), Repo: o.repo, Manual: byHand,
		Ingress:  cmp.Or(o.ingress, cluster.Addresses[provider.IngressAddress]),
		Patience: 2 * o.settings.Patience, Delete: o.settings.Delete,
	}
}

// isManual reports whether the demo must apply the objects that KEDA and the agent would create, because the user's
// cluster lacks both.
func (o *options) isManual(ctx context.Context, cluster *provider.Cluster) (bool, error) {
	possible, err := guide.IsSupported(ctx, o.terminal(cluster))
	if err != nil || possible {
		return false, err
	}
	const missing = "KEDA, the agent or the scaler is not in this cluster: see docs/how-to/scale-with-keda.md"
	if o.only == scalingPart || o.provider == provider.NameEmbedded {
		return false, fmt.Errorf("%w: %s", provider.ErrUnsupported, missing)
	}
	o.screen.Print(o.style.Bad("Left out: ") + "the Ingress, and replicas that follow requests. " + missing)
	return true, nil
}

// prepare applies the guide's objects and finds the address for requests.
func (o *options) prepare(ctx context.Context, cluster *provider.Cluster, g guide.Guide) error {
	if err := g.Apply(ctx); err != nil {
		return err
	}
	o.settings.Address = cluster.Addresses[provider.ProxyAddress]
	if g.Manual {
		return nil
	}
	err := g.Ready(ctx)
	if err == nil {
		o.settings.Address, err = g.IngressAddress(ctx)
	}
	if err == nil && o.keep {
		err = g.Browser(ctx)
	}
	o.scaling.Address, o.scaling.Started = o.settings.Address, o.settings.Started
	return err
}

// summary prints the results of both halves.
func (o *options) summary(first scenario.Outcome, second scaling.Outcome) {
	if len(first.Rows) == 0 && len(second.Rows) == 0 {
		return
	}
	o.screen.Print("", o.style.Heading("Summary"))
	if len(first.Rows) > 0 {
		o.screen.Print(append(o.style.Table(first.Rows), "")...)
	}
	if len(second.Rows) > 0 {
		o.screen.Print(append(o.style.ReplicasTable(second.Rows), "")...)
	}
	o.screen.Print(o.style.Checks(append(first.Checks, second.Checks...))...)
	if len(first.Rows) > 0 {
		o.screen.Print("", fmt.Sprintf("%s to a running canary, measured; requests started at most %s late.",
			report.Seconds(first.RunningCanary), report.Latency(first.Totals.Lag)))
	}
	o.screen.Print(report.Seconds(time.Since(o.settings.Started)) + " in all.")
}

// interrupted replaces the errors that a signal caused.
func (*options) interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// cleanUp keeps everything for the user, or removes what the demo has created: the cluster or the namespace.
func (o *options) cleanUp(ctx context.Context, from provider.Provider, cluster *provider.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, o.settings.Cleanup)
	defer cancel()
	switch {
	case o.keep && cluster != nil:
		o.screen.Print(append([]string{""}, o.accessHints(cluster)...)...)
		return nil
	case from.Owns():
		// The namespace goes with its cluster.
		o.screen.Print("")
		return from.Down(ctx)
	case cluster != nil && o.provider == provider.NameEmbedded:
		o.screen.Print("", "The demo's namespace is being deleted; the cluster, which ran before, goes on.")
		return o.terminal(cluster).Leave(ctx, guide.Namespace, o.settings.Delete)
	case cluster != nil:
		o.screen.Print("", "The demo's namespace is deleted; the cluster, which ran before, goes on.")
		return o.terminal(cluster).Remove(ctx, guide.Namespace, o.settings.Delete)
	default:
		return nil // nothing was started
	}
}

// accessHints returns how to access and how to end what keeps running.
func (o *options) accessHints(cluster *provider.Cluster) []string {
	lines := []string{o.style.Heading("Everything is left running.")}
	if _, port, err := net.SplitHostPort(cluster.Addresses[provider.IngressAddress]); err == nil {
		lines = append(lines, "  in a browser:  http://"+guide.BrowserHost+":"+port+"/")
	}
	end := "kubectl delete ns " + guide.Namespace
	if o.provider == provider.NameEmbedded {
		lines = append(lines, "  in a shell:    export KUBECONFIG="+cluster.Kubeconfig+" PATH="+cluster.Bin+`:"$PATH"`)
		end = "make cluster-down"
	}
	return append(lines,
		"  live page:     kubectl -n keda port-forward deployment/keda-add-ons-http-interceptor 9091",
		"                 then http://localhost:9091/#/"+guide.Namespace+"/"+guide.App,
		"  next canary:   kubectl argo rollouts -n rollouts-demo set image rollouts-demo "+
			"rollouts-demo=argoproj/rollouts-demo:orange",
		"  take it down:  "+end,
	)
}
