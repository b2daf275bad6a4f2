package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// errOtherCluster is returned if the running cluster differs from the requested one.
var errOtherCluster = errors.New("the running cluster differs: run `localcluster down` first")

// request contains the parsed options.
type request struct {
	addons    []stack.Addon
	forwards  []node.Forward
	extraArgs map[string][]string
	binaries  map[string]string // paths by program
}

// request parses the options.
func (o *upOptions) request() (request, error) {
	r := request{extraArgs: map[string][]string{}, binaries: map[string]string{}}
	var err error
	if r.addons, err = stack.ParseAddons(o.with); err != nil {
		return r, err
	}
	if r.forwards, err = parseForwards(o.forwards); err != nil {
		return r, err
	}
	for _, extra := range o.extraArgs {
		component, argument, found := strings.Cut(extra, "=")
		if !found {
			return r, fmt.Errorf("--extra-arg %q: want COMPONENT=ARGUMENT, such as etcd=--log-level=debug", extra)
		}
		r.extraArgs[component] = append(r.extraArgs[component], argument)
	}
	for _, binary := range o.binaries {
		program, path, found := strings.Cut(binary, "=")
		if !found {
			return r, fmt.Errorf("--binary %q: want PROGRAM=PATH, such as interceptor=/tmp/interceptor", binary)
		}
		r.binaries[program] = path
	}
	return r, nil
}

// check compares the running cluster with the request. Missing add-ons are not a difference: they are added to the
// cluster.
func (r request) check(running node.Config, bare bool) error {
	for _, forward := range r.forwards {
		if !slices.Contains(running.Forwards, forward) {
			return fmt.Errorf("--forward %s=%s: %w", forward.Name, forward.Target, errOtherCluster)
		}
	}
	for component, arguments := range r.extraArgs {
		for _, argument := range arguments {
			if !slices.Contains(running.Settings.ExtraArgs[component], argument) {
				return fmt.Errorf("--extra-arg %s=%s: %w", component, argument, errOtherCluster)
			}
		}
	}
	if running.Bare && !bare {
		return fmt.Errorf("no --bare: %w", errOtherCluster)
	}
	return nil
}

// join returns the add-ons of the running cluster and of the request.
func (r request) join(running node.Config) ([]stack.Addon, error) {
	names := slices.Clone(running.Addons)
	for _, addon := range r.addons {
		names = append(names, string(addon))
	}
	all, err := stack.ParseAddons(names)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errOtherCluster)
	}
	return all, nil
}

// parseForwards parses the targets inside the cluster.
func parseForwards(arguments []string) ([]node.Forward, error) {
	var out []node.Forward
	taken := stack.Forwards("")
	for _, argument := range arguments {
		name, target, found := strings.Cut(argument, "=")
		if _, _, err := net.SplitHostPort(target); !found || name == "" || err != nil {
			return nil, fmt.Errorf("--forward %q: want NAME=HOST:PORT, such as shop=shop.default.svc.cluster.local:80", argument)
		}
		if slices.ContainsFunc(append(taken, out...), func(f node.Forward) bool { return f.Name == name }) {
			return nil, fmt.Errorf("--forward %q: duplicate name %s", argument, name)
		}
		out = append(out, node.Forward{Name: name, Target: target})
	}
	return out, nil
}
