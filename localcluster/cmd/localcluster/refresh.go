package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// refresh applies changes since the start to the running cluster. It replaces this project's programs and manifests in
// place. Other versions of Kubernetes and similar changes need a restart of the cluster. It waits for a cluster that is
// not ready yet.
func refresh(ctx context.Context, l *location, o *upOptions, r request) error {
	running, err := node.ReadConfig(filepath.Join(l.dir(), host.PlanFile))
	if err != nil {
		return err
	}
	if err := r.check(running, o.bare); err != nil {
		return err
	}
	status, err := awaitStarted(ctx, l.dir())
	if err != nil {
		return err
	}
	// What the cluster has in addition to the request stays.
	same := *o
	same.addresses, same.bare, same.transient = running.Settings.Addresses, running.Bare, status.Transient
	if r.addons, err = r.join(running); err != nil {
		return err
	}
	r.forwards, r.extraArgs = running.Forwards[len(stack.Forwards("")):], running.Settings.ExtraArgs
	components, other, err := ensureChangedComponents(ctx, l, running, r.addons)
	if err != nil {
		return err
	}
	if len(other) > 0 {
		printProgress("the running cluster has another version of %s: restarting it", strings.Join(other, ", "))
		if err := down(ctx, l); err != nil {
			return err
		}
		return start(ctx, l, &same, r)
	}
	for _, program := range running.Contents.Given {
		if _, again := r.binaries[program]; !again {
			printProgress("%s was set by --binary, and stays", program)
			r.binaries[program] = ownProgram(l, product.Program(program))
		}
	}
	next, err := assemble(ctx, l, &same, r, components)
	if err != nil {
		return err
	}
	return replace(ctx, l, running, next, node.Slowness(status.StartSeconds))
}

// awaitStarted waits for a cluster that is still starting, and returns its state.
func awaitStarted(ctx context.Context, dir string) (host.Status, error) {
	status, err := host.ReadStatus(dir)
	if err != nil || status.State == host.PhaseRunning {
		return status, err
	}
	if err := awaitReady(ctx, dir); err != nil {
		return status, err
	}
	return host.ReadStatus(dir)
}

// ensureChangedComponents builds the components of a cluster with these add-ons. It returns the folder of each, and the
// names of those whose version in the running cluster differs.
func ensureChangedComponents(
	ctx context.Context, l *location, running node.Config, addons []stack.Addon,
) (components map[string]string, other []string, err error) {
	wanted, err := componentsFor(l, addons)
	if err != nil {
		return nil, nil, err
	}
	before, err := stack.ParseAddons(running.Addons)
	if err != nil {
		return nil, nil, err
	}
	common, err := componentsFor(l, before)
	if err != nil {
		return nil, nil, err
	}
	if components, err = ensureComponents(ctx, l, wanted); err != nil {
		return nil, nil, err
	}
	return components, differing(running.Contents.Components, selectComponents(components, common)), nil
}

// selectComponents returns the folders of the named components.
func selectComponents(folders map[string]string, components []build.Component) map[string]string {
	out := map[string]string{}
	for _, component := range components {
		if folder, known := folders[component.Name]; known {
			out[component.Name] = folder
		}
	}
	return out
}

// differing returns the names with different values.
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

// replace replaces the running contents by the next ones. Slowness is the factor by which operations take longer than
// usual here.
func replace(ctx context.Context, l *location, running, next node.Config, slowness float64) error {
	programs := differing(running.Contents.Programs, next.Contents.Programs)
	added := differing(setOf(running.Addons), setOf(next.Addons))
	if len(programs)+len(added) == 0 && running.Contents.Manifests == next.Contents.Manifests {
		printProgress("the cluster is already running the current build")
		return nil
	}
	what := strings.Join(append(added, programs...), ", ")
	if what == "" {
		what = "the manifests"
	}
	printProgress("the cluster is already running; changed since its start: %s", what)
	changed := append(images.With(next.Images, pathsOf(l, programs)), newImages(running.Images, next.Images)...)
	if err := images.PublishOver(ctx, next.Settings.Path(node.RegistrySocket), changed, runtime.GOARCH); err != nil {
		return err
	}
	kubectl := node.Kubectl{
		Program: filepath.Join(next.Settings.Bin, "kubectl"),
		Env: []string{
			"KUBECONFIG=" + next.Settings.Path("kubeconfig"), "KUBECACHEDIR=" + next.Settings.Path("own", "kubectl"),
		},
	}
	installed := running.Steps
	if running.Contents.Manifests != next.Contents.Manifests {
		installed = nil
	}
	for _, step := range refreshSteps(next.Steps, programs, installed) {
		if err := kubectl.Run(ctx, step.Args, time.Duration(slowness*float64(step.Timeout))); err != nil {
			return fmt.Errorf("%s: %w", step.Title, err)
		}
	}
	printProgress("the cluster runs the changes now")
	_, err := writePlan(next)
	return err
}

// refreshSteps are the installation steps that replace changed programs in a running cluster, with their restarts
// before the first wait. Manifests that are already installed are not applied again.
func refreshSteps(all []install.Step, programs []string, installed []install.Step) []install.Step {
	waits := slices.IndexFunc(all, func(s install.Step) bool { return s.Wait })
	steps := slices.DeleteFunc(slices.Clone(all[:waits]), func(s install.Step) bool {
		return slices.ContainsFunc(installed, func(i install.Step) bool { return slices.Equal(i.Args, s.Args) })
	})
	return slices.Concat(steps, stack.Restarts(programs), all[waits:])
}

// newImages returns the images that a running cluster does not serve yet.
func newImages(running, next []images.Spec) []images.Spec {
	return slices.DeleteFunc(slices.Clone(next), func(spec images.Spec) bool {
		return slices.ContainsFunc(running, func(r images.Spec) bool { return slices.Equal(r.Names, spec.Names) })
	})
}

// setOf returns a set of names for differing.
func setOf(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = name
	}
	return out
}

// pathsOf returns the paths of programs.
func pathsOf(l *location, programs []string) []string {
	paths := make([]string, len(programs))
	for i, program := range programs {
		paths[i] = ownProgram(l, product.Program(program))
	}
	return paths
}
