package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/preflight"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// abandonTimeout bounds the removal of an interrupted start.
const abandonTimeout = 30 * time.Second

type upOptions struct {
	extraArgs []string
	binaries  []string
	addresses cluster.Addresses
	bare      bool
	with      []string
	forwards  []string
	transient bool
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
	flags.StringArrayVar(&o.extraArgs, "extra-arg", nil,
		"append an argument to a component's command line: COMPONENT=ARGUMENT (repeatable)")
	flags.StringArrayVar(&o.binaries, "binary", nil,
		"use another binary for one of this project's programs: PROGRAM=PATH (repeatable)")
	flags.BoolVar(&o.bare, "bare", false, "start Kubernetes with DNS and install nothing else")
	flags.StringArrayVar(&o.with, "with", nil,
		"install an add-on, such as envoy-gateway, also into a cluster that runs (repeatable)")
	flags.StringArrayVar(&o.forwards, "forward", nil,
		"forward a port on 127.0.0.1 to an address inside: NAME=HOST:PORT (repeatable)")
	flags.BoolVar(&o.transient, "transient", false,
		"start the cluster for the calling command: `make demo` removes it if that command has died")
	flags.StringVar(&o.addresses.Node, "node-address", o.addresses.Node,
		"address of the node, inside the cluster's own network")
	flags.StringVar(&o.addresses.Pods, "pod-cidr", o.addresses.Pods, "addresses of pods")
	return command
}

func buildCommand(l *location) *cobra.Command {
	var with []string
	var estimateOnly bool
	command := &cobra.Command{
		Use:   "build",
		Short: "Build the cluster's components, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			addons, err := stack.ParseAddons(with)
			if err != nil {
				return err
			}
			components, err := componentsFor(l, addons)
			if err != nil {
				return err
			}
			if estimateOnly {
				return printEstimate(c.OutOrStdout(), l, components)
			}
			if err := checkMachine(c.Context(), l, components, preflight.Nothing); err != nil {
				return err
			}
			_, err = ensureComponents(c.Context(), l, components)
			return err
		},
	}
	command.Flags().BoolVar(&estimateOnly, "estimate", false,
		"build nothing; print the number of missing components and their build time on two cores as JSON")
	command.Flags().StringArrayVar(&with, "with", nil,
		"also build the components of an add-on, such as envoy-gateway (repeatable)")
	return command
}

func pathCommand(l *location) *cobra.Command {
	return &cobra.Command{
		Use:   "path PART",
		Short: "Build one component unless it exists, and print its folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			component, err := componentNamed(l, args[0])
			if err != nil {
				return err
			}
			folders, err := ensureComponents(c.Context(), l, []build.Component{component})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), folders[component.Name])
			return err
		},
	}
}

// up makes the requested cluster run, whatever exists.
func up(ctx context.Context, l *location, o *upOptions) error {
	if err := l.resolve(); err != nil {
		return err
	}
	r, err := o.request()
	if err != nil {
		return err
	}
	status, err := host.ReadStatus(l.dir())
	if err != nil {
		return err
	}
	switch status.State {
	case host.PhaseRunning, host.PhaseStarting:
		if !o.transient {
			if err := host.SetTransient(l.dir(), false); err != nil {
				return err
			}
		}
		return refresh(ctx, l, o, r)
	case host.PhaseBroken:
		printProgress("removing an earlier cluster (%s)", firstLine(status.Message))
		if err := down(ctx, l); err != nil {
			return err
		}
	case host.PhaseStopped:
	}
	return start(ctx, l, o, r)
}

// start builds missing components and starts a cluster if none runs. Checks and the password prompt come before the
// build.
func start(ctx context.Context, l *location, o *upOptions, r request) error {
	wanted, err := componentsFor(l, r.addons)
	if err != nil {
		return err
	}
	building := preflight.Programs
	if o.bare {
		building = preflight.Nothing
	}
	if err := checkMachine(ctx, l, wanted, building); err != nil {
		return err
	}
	asRoot, done := context.WithCancel(ctx)
	defer done()
	if err := elevate(asRoot, "the cluster needs namespaces, mounts and cgroups of its own"); err != nil {
		return err
	}
	components, err := ensureComponents(ctx, l, wanted)
	if err != nil {
		return err
	}
	config, err := assemble(ctx, l, o, r, components)
	if err != nil {
		return err
	}
	if err := errors.Join(stack.LinkPrograms(components, config.Settings.Bin),
		host.SetTransient(l.dir(), o.transient)); err != nil {
		return err
	}
	began := time.Now()
	if err := launch(ctx, config); err != nil {
		return err
	}
	if err := awaitReady(ctx, l.dir()); err != nil {
		return abandon(ctx, l, err)
	}
	printProgress("started in %.0f s; kubeconfig: %s", time.Since(began).Seconds(), filepath.Join(l.dir(), "kubeconfig"))
	return nil
}

// abandon removes an interrupted start. The logs of a failed start stay for the user.
func abandon(ctx context.Context, l *location, cause error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("%w\nthe logs are in %s until the next start", cause, filepath.Join(l.dir(), "logs"))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	return errors.Join(cause, down(ctx, l))
}

func printProgress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// errFailed is the error of a failed start. Its message is the supervisor's.
var errFailed = errors.New("the cluster did not start")
