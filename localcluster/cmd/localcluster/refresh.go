package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// refresh brings what has changed since the start into force in the cluster that
// is there: this project's programs and manifests in place, other versions of
// Kubernetes and the like by another start. A cluster that isn't ready yet is
// waited for.
func refresh(ctx context.Context, l *location, o *upOptions, r request) error {
	running, err := node.ReadConfig(filepath.Join(l.dir(), host.PlanFile))
	if err != nil {
		return err
	}
	if err := r.check(running, o.bare); err != nil {
		return err
	}
	status, err := settled(ctx, l.dir())
	if err != nil {
		return err
	}
	// What the cluster has beyond the request stays.
	same := *o
	same.addresses, same.bare, same.transient = running.Settings.Addresses, running.Bare, status.Transient
	if r.addons, err = stack.ParseAddons(running.Addons); err != nil {
		return err
	}
	r.forwards, r.extraArgs = running.Forwards[len(stack.Forwards("")):], running.Settings.ExtraArgs
	wanted, err := partsFor(l, r.addons)
	if err != nil {
		return err
	}
	parts, err := ensureParts(ctx, l, wanted)
	if err != nil {
		return err
	}
	if other := differing(running.Contents.Parts, parts); len(other) > 0 {
		say("the cluster that runs is of another version of %s: it is started anew", strings.Join(other, ", "))
		if err := down(ctx, l); err != nil {
			return err
		}
		return start(ctx, l, &same, r)
	}
	for _, program := range running.Contents.Given {
		if _, again := r.binaries[program]; !again {
			say("%s was given by --binary, and stays", program)
			r.binaries[program] = ownProgram(l, product.Program(program))
		}
	}
	next, err := assemble(ctx, l, &same, r, parts)
	if err != nil {
		return err
	}
	return replace(ctx, l, running, next, node.Slowness(status.StartSeconds))
}

// settled waits for a cluster that is still starting, and returns its state.
func settled(ctx context.Context, dir string) (host.Status, error) {
	status, err := host.ReadStatus(dir)
	if err != nil || status.State == host.PhaseRunning {
		return status, err
	}
	if err := awaitReady(ctx, dir); err != nil {
		return status, err
	}
	return host.ReadStatus(dir)
}

// differing lists the names whose values are not the same.
func differing(a, b map[string]string) []string {
	var out []string
	for name := range b {
		if a[name] != b[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// replace puts the next contents in the place of the running ones. Slowness is how
// many times longer than usual things take here.
func replace(ctx context.Context, l *location, running, next node.Config, slowness float64) error {
	programs := differing(running.Contents.Programs, next.Contents.Programs)
	if len(programs) == 0 && running.Contents.Manifests == next.Contents.Manifests {
		say("the cluster is running already, with what was just built")
		return nil
	}
	what := strings.Join(programs, ", ")
	if what == "" {
		what = "the manifests"
	}
	say("the cluster is running already; changed since its start: %s", what)
	changed := images.With(next.Images, pathsOf(l, programs))
	if err := images.PublishOver(ctx, next.Settings.Path(node.RegistrySocket), changed, runtime.GOARCH); err != nil {
		return err
	}
	kubectl := node.Kubectl{
		Program: filepath.Join(next.Settings.Bin, "kubectl"),
		Env:     []string{"KUBECONFIG=" + next.Settings.Path("kubeconfig"), "KUBECACHEDIR=" + next.Settings.Path("own", "kubectl")},
	}
	for _, step := range refreshSteps(next.Steps, programs, running.Contents.Manifests == next.Contents.Manifests) {
		if err := kubectl.Run(ctx, step.Args, time.Duration(slowness*float64(step.Timeout))); err != nil {
			return fmt.Errorf("%s: %w", step.Title, err)
		}
	}
	say("the cluster runs them now")
	_, err := writePlan(next)
	return err
}

// refreshSteps are the steps of an installation that bring changed programs into a
// running cluster, and their restarts before the first wait. Manifests that are
// installed already are not applied again.
func refreshSteps(all []install.Step, programs []string, installed bool) []install.Step {
	waits := slices.IndexFunc(all, func(s install.Step) bool { return s.Wait })
	steps := stack.Restarts(programs)
	if !installed {
		steps = append(slices.Clone(all[:waits]), steps...)
	}
	return append(steps, all[waits:]...)
}

// pathsOf are the paths of programs.
func pathsOf(l *location, programs []string) []string {
	paths := make([]string, len(programs))
	for i, program := range programs {
		paths[i] = ownProgram(l, product.Program(program))
	}
	return paths
}
