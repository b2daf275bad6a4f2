package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

// errOtherCluster says that a cluster runs that isn't the one asked for.
var errOtherCluster = errors.New("a cluster is there without it; end that one first, by `localcluster down`")

// checkPlan compares the cluster that is there with what is asked for.
func checkPlan(dir string, addons []stack.Addon, forwards []node.Forward) error {
	config, err := node.ReadConfig(filepath.Join(dir, host.PlanFile))
	if err != nil {
		return err
	}
	for _, addon := range addons {
		if !slices.Contains(config.Addons, string(addon)) {
			return fmt.Errorf("--with %s: %w", addon, errOtherCluster)
		}
	}
	for _, forward := range forwards {
		if !slices.Contains(config.Forwards, forward) {
			return fmt.Errorf("--forward %s=%s: %w", forward.Name, forward.Target, errOtherCluster)
		}
	}
	return nil
}

// parseForwards reads addresses inside that a user wants to reach.
func parseForwards(arguments []string) ([]node.Forward, error) {
	var out []node.Forward
	taken := stack.Forwards("")
	for _, argument := range arguments {
		name, target, found := strings.Cut(argument, "=")
		if _, _, err := net.SplitHostPort(target); !found || name == "" || err != nil {
			return nil, fmt.Errorf("--forward %q: want NAME=HOST:PORT, such as shop=shop.default.svc.cluster.local:80", argument)
		}
		if slices.ContainsFunc(append(taken, out...), func(f node.Forward) bool { return f.Name == name }) {
			return nil, fmt.Errorf("--forward %q: the name %s is taken", argument, name)
		}
		out = append(out, node.Forward{Name: name, Target: target})
	}
	return out, nil
}
