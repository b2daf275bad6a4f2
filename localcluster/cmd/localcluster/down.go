package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
)

func downCommand(l *location) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove everything that it left; built programs stay cached",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			if all {
				return downAll(c.Context(), l)
			}
			return down(c.Context(), l)
		},
	}
	command.Flags().BoolVar(&all, "all", false, "stop the clusters of all checkouts that share the cache folder")
	return command
}

func down(ctx context.Context, l *location) error { return remove(ctx, l.dir(), l.name()) }

func downAll(ctx context.Context, l *location) error {
	entries, err := filepath.Glob(filepath.Join(l.cache, "clusters", "*"))
	if err != nil {
		return fmt.Errorf("list the clusters: %w", err)
	}
	for _, dir := range entries {
		if err := remove(ctx, dir, filepath.Base(dir)); err != nil {
			return err
		}
	}
	return nil
}

// remove stops one cluster. Its supervisor does that without root. If the supervisor has died, root is needed, unless
// everything left belongs to the user.
func remove(ctx context.Context, dir, name string) error {
	settings := cluster.Settings{Name: name, Dir: dir}
	if _, err := os.Stat(dir); err != nil && !cgroup.Exists(settings) {
		printProgress("there is no cluster")
		return nil
	}
	if removed, err := host.RequestStop(ctx, dir); removed || err != nil {
		return err
	}
	if holder, err := host.LockHolder(dir); err == nil && holder == 0 && !cgroup.Exists(settings) &&
		!cgroup.HasRecord(settings) && os.RemoveAll(dir) == nil {
		return nil
	}
	if err := elevate(ctx, "the cluster's files belong to root"); err != nil {
		return err
	}
	return runAsRoot(ctx, "inside", "remove", dir, name)
}

func statusCommand(l *location) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show whether the cluster runs, and how to reach it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			status, err := host.ReadStatus(l.dir())
			if err != nil {
				return err
			}
			return printStatus(c.OutOrStdout(), status, output)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return command
}

func printStatus(w io.Writer, status host.Status, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(status)
	case "text":
		fmt.Fprintf(w, "%s\n", status.State)
		if status.Message != "" {
			fmt.Fprintf(w, "  %s\n", status.Message)
		}
		for name, address := range status.Addresses {
			fmt.Fprintf(w, "  %s: %s\n", name, address)
		}
		if status.Kubeconfig != "" {
			fmt.Fprintf(w, "\nexport KUBECONFIG=%s PATH=%s:$PATH\n", status.Kubeconfig, status.Bin)
		}
		return nil
	default:
		return fmt.Errorf("--output %q: want text or json", format)
	}
}

func logsCommand(l *location) *cobra.Command {
	return &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print a component's log",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			file, err := os.Open(filepath.Join(l.dir(), "logs", args[0]+".log"))
			if err != nil {
				return fmt.Errorf("no log of %s (is the cluster up?): %w", args[0], err)
			}
			defer file.Close()
			_, err = io.Copy(c.OutOrStdout(), file)
			return err
		},
	}
}
