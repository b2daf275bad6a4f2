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

// uninstallOptions are the options of the command.
type uninstallOptions struct {
	conn    *connection
	dryRun  bool
	force   bool
	timeout time.Duration
}

// newUninstall returns the command that deletes what install has created.
func newUninstall(conn *connection) *cobra.Command {
	options := &uninstallOptions{conn: conn}
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete what install created, and restore what it changed",
		Long: `uninstall restores the original backends of Ingresses, HTTPRoutes, VirtualServices and Routes that the agent has
rewritten, unregisters the routers that install has registered, restarts the Argo Rollouts controller, and deletes all
objects that install and its components have created. Entries of other plugins stay, and an entry that install
--replace has replaced is restored.

If Rollouts, ScaledObjects or HTTPScaledObjects still use the installation, uninstall fails and lists them. With
--force it continues: their canaries and scaling stop, and HTTPScaledObjects are deleted together with their
CustomResourceDefinition. You can run uninstall again to continue after an interruption.`,
		Example: `  # Show what would be deleted
  kubectl http-canary uninstall --dry-run

  # Uninstall everything
  kubectl http-canary uninstall`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.BoolVar(&options.dryRun, "dry-run", false,
		"submit the requests as a server-side dry run, without persisting them")
	flags.BoolVar(&options.force, "force", false, "also delete objects that are in use")
	addTimeout(flags, &options.timeout, 5*time.Minute, "maximum `time` for the command")
	return command
}

// run reads the installation and uninstalls it.
func (u *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	client, err := u.conn.client()
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, u.timeout)
	defer cancel()
	cluster, err := gather.New(client, "").All(ctx)
	if err != nil {
		return err
	}
	all, err := manifests.All(config.Files)
	if err != nil {
		return err
	}
	removal := install.Removal{Facts: cluster, All: all, Force: u.force}
	return install.New(client, linePrinter(out), u.dryRun).Uninstall(ctx, removal)
}
