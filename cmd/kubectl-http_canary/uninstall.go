package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
)

// uninstall is what its command line asks for.
type uninstallOptions struct {
	way    *way
	tries  bool
	forces bool
	limit  time.Duration
}

// newUninstall returns the command that takes away what install has made.
func newUninstall(way *way) *cobra.Command {
	asked := &uninstallOptions{way: way}
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Take away what install has made, and restore what it has changed",
		Long: `uninstall gives Ingresses that the agent has wired their own backends back, takes the routers that install has registered out
of the controller's list and has it start anew, and removes all objects that install has made, and what their programs
have made. Entries of other plugins stay; one that install --replace has replaced comes back.

It refuses while Rollouts, ScaledObjects or HTTPScaledObjects use any of that, and names them. With --force it goes on:
they stand still, and HTTPScaledObjects are deleted with their definition. An interrupted one is carried on by the next.`,
		Example: `  # What would go?
  kubectl http-canary uninstall --dry-run

  # All of it
  kubectl http-canary uninstall`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return asked.run(command.Context(), command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.BoolVar(&asked.tries, "dry-run", false, "have the API server judge it without storing it, and say what would be done")
	flags.BoolVar(&asked.forces, "force", false, "also what is in use")
	flags.DurationVar(&asked.limit, "time-limit", 5*time.Minute, "`time` that all of it may take")
	return command
}

// run reads what is there, and takes away what is install's.
func (u *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	client, err := u.way.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.limit)
	defer cancel()
	cluster, err := gather.New(client, "").All(ctx)
	if err != nil {
		return err
	}
	every, err := manifests.Every(config.Files)
	if err != nil {
		return err
	}
	removal := install.Removal{Facts: cluster, Every: every, Force: u.forces}
	return install.New(client, lineTo(out), u.tries).Uninstall(ctx, removal)
}
