package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// upTimeout bounds the start of a cluster whose parts are built.
const upTimeout = 4 * time.Minute

type upOptions struct {
	extraArgs []string
	binaries  []string
	addresses cluster.Addresses
	bare      bool
	with      []string
	forwards  []string
}

func upCommand(l *location) *cobra.Command {
	o := &upOptions{addresses: cluster.DefaultAddresses()}
	command := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing and start the cluster; returns when it is ready",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return up(c.Context(), l, o) },
	}
	flags := command.Flags()
	flags.StringArrayVar(&o.extraArgs, "extra-arg", nil, "append an argument to a component's command line: COMPONENT=ARGUMENT (repeatable)")
	flags.StringArrayVar(&o.binaries, "binary", nil, "use another binary for one of this project's programs: PROGRAM=PATH (repeatable)")
	flags.BoolVar(&o.bare, "bare", false, "start Kubernetes with DNS and install nothing else")
	flags.StringArrayVar(&o.with, "with", nil, "install an add-on, such as envoy-gateway (repeatable)")
	flags.StringArrayVar(&o.forwards, "forward", nil, "open a port on 127.0.0.1 that leads to an address inside: NAME=HOST:PORT (repeatable)")
	flags.StringVar(&o.addresses.Node, "node-address", o.addresses.Node, "address of the node, inside the cluster's own network")
	flags.StringVar(&o.addresses.Pods, "pod-cidr", o.addresses.Pods, "addresses of pods")
	return command
}

func buildCommand(l *location) *cobra.Command {
	var with []string
	command := &cobra.Command{
		Use:   "build",
		Short: "Build what the cluster is made of, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			addons, err := stack.ParseAddons(with)
			if err != nil {
				return err
			}
			parts, err := partsFor(l, addons)
			if err != nil {
				return err
			}
			_, err = ensureParts(c.Context(), l, parts)
			return err
		},
	}
	command.Flags().StringArrayVar(&with, "with", nil, "build what an add-on needs, too, such as envoy-gateway (repeatable)")
	return command
}

func pathCommand(l *location) *cobra.Command {
	return &cobra.Command{
		Use:   "path PART",
		Short: "Build one part unless it is there, and print its folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			part, err := partNamed(l, args[0])
			if err != nil {
				return err
			}
			folders, err := ensureParts(c.Context(), l, []build.Part{part})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), folders[part.Name])
			return err
		},
	}
}

func up(ctx context.Context, l *location, o *upOptions) error {
	if err := l.resolve(); err != nil {
		return err
	}
	addons, err := stack.ParseAddons(o.with)
	if err != nil {
		return err
	}
	forwards, err := parseForwards(o.forwards)
	if err != nil {
		return err
	}
	status, err := host.ReadStatus(l.dir())
	if err != nil {
		return err
	}
	switch status.State {
	case host.PhaseRunning:
		say("the cluster is running already")
		return checkPlan(l.dir(), addons, forwards)
	case host.PhaseStarting:
		if err := checkPlan(l.dir(), addons, forwards); err != nil {
			return err
		}
		return awaitReady(ctx, l.dir())
	case host.PhaseBroken:
		say("cleaning up an earlier cluster (%s)", firstLine(status.Message))
		if err := down(ctx, l); err != nil {
			return err
		}
	case host.PhaseStopped:
	}
	config, err := assemble(ctx, l, o, addons)
	if err != nil {
		return err
	}
	config.Forwards = append(config.Forwards, forwards...)
	began := time.Now()
	if err := launch(ctx, config); err != nil {
		return err
	}
	if err := awaitReady(ctx, l.dir()); err != nil {
		return err
	}
	say("started in %.0f s; kubeconfig: %s", time.Since(began).Seconds(), filepath.Join(l.dir(), "kubeconfig"))
	return nil
}

// assemble builds all programs and describes the cluster.
func assemble(ctx context.Context, l *location, o *upOptions, addons []stack.Addon) (node.Config, error) {
	wanted, err := partsFor(l, addons)
	if err != nil {
		return node.Config{}, err
	}
	parts, err := ensureParts(ctx, l, wanted)
	if err != nil {
		return node.Config{}, err
	}
	if err := os.MkdirAll(l.dir(), 0o755); err != nil {
		return node.Config{}, fmt.Errorf("make the run directory: %w", err)
	}
	settings := cluster.Settings{Name: l.name(), Dir: l.dir(), Bin: filepath.Join(l.dir(), "programs"), Addresses: o.addresses, ExtraArgs: map[string][]string{}}
	for _, extra := range o.extraArgs {
		component, argument, found := strings.Cut(extra, "=")
		if !found {
			return node.Config{}, fmt.Errorf("--extra-arg %q: want COMPONENT=ARGUMENT, such as etcd=--log-level=debug", extra)
		}
		settings.ExtraArgs[component] = append(settings.ExtraArgs[component], argument)
	}
	if err := stack.LinkPrograms(parts, settings.Bin); err != nil {
		return node.Config{}, err
	}
	config := node.Config{
		Settings: settings,
		Forwards: stack.Forwards(fmt.Sprintf("%s:%d", settings.Addresses.Node, cluster.APIPort)),
	}
	sources := install.Sources{Repo: l.repo, RolloutsManifest: filepath.Join(parts["argo-rollouts"], "share", "install.yaml")}
	bundles := []install.Bundle{install.DNS(sources)}
	var programs map[stack.Program]string
	if o.bare {
		config.Images = stack.BareImages(parts)
	} else {
		if programs, err = buildPrograms(ctx, l, stack.Sources(addons), o.binaries); err != nil {
			return node.Config{}, err
		}
		config.Images = stack.Images(parts, programs)
		bundles = append(bundles, install.Canaries(sources))
	}
	for _, addon := range addons {
		config.Addons = append(config.Addons, string(addon))
	}
	config.Images = append(config.Images, stack.AddonImages(addons, parts, programs)...)
	bundles = append(bundles, stack.AddonBundles(addons, parts, sources, o.bare)...)
	config.Steps = install.Steps(bundles...)
	return config, nil
}

// buildPrograms builds this project's own programs from the working tree, but
// for those that are given as binaries.
func buildPrograms(ctx context.Context, l *location, sources map[stack.Program]string, binaries []string) (map[stack.Program]string, error) {
	given := map[stack.Program]string{}
	for _, binary := range binaries {
		program, path, found := strings.Cut(binary, "=")
		if _, known := sources[stack.Program(program)]; !found || !known {
			return nil, fmt.Errorf("--binary %q: want PROGRAM=PATH with one of this project's programs", binary)
		}
		given[stack.Program(program)] = path
	}
	out := map[stack.Program]string{}
	var packages []string
	for program, source := range sources {
		target := filepath.Join(l.dir(), "own", string(program))
		out[program] = target
		path, ok := given[program]
		if !ok {
			packages = append(packages, source)
			continue
		}
		if err := copyProgram(path, target); err != nil {
			return nil, err
		}
	}
	return out, compile(ctx, l.repo, filepath.Join(l.dir(), "own"), packages)
}

// compile builds packages of the repository into a folder, each program named
// after the last part of its package's path. As with the parts, there is no debug
// information that would only be stripped again.
func compile(ctx context.Context, repo, dir string, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the program folder: %w", err)
	}
	slices.Sort(packages)
	say("building %s", strings.Join(packages, ", "))
	args := []string{"build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}
	command := exec.CommandContext(ctx, "go", append(args, packages...)...)
	command.Dir = repo
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOGC=200")
	if printed, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, ", "), err, printed)
	}
	return nil
}

func copyProgram(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make the program folder: %w", err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		return fmt.Errorf("copy the binary: %w", err)
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// errFailed says that a start gave up; its message is the supervisor's.
var errFailed = errors.New("the cluster did not start")
