package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// listInterval is the interval at which list --watch reads the cluster.
const listInterval = 2 * time.Second

// listOptions are the flags of list.
type listOptions struct {
	outputFlags

	conn         *connection
	isAll, watch bool
	timeout      time.Duration
}

// newList returns the command that lists canaries.
func newList(conn *connection) *cobra.Command {
	options := &listOptions{conn: conn}
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the canaries of a namespace or of all namespaces",
		Long: `list prints one line for each Rollout that uses ` + facts.HTTPRouter + ` or ` + facts.GatewayRouter + `, in a
canary or not: its step, the ready endpoints of the stable and the canary Service, the weight of the canary, whether
the data plane applies the weight, and how many Ready proxies have acknowledged it.

With --watch it prints a line for each Rollout that has changed, until interrupted. It reads the cluster every
` + listInterval.String() + `. The last line of a Rollout that was deleted, or no longer uses one of the routers, has the
STATUS Removed; with --output json, the field removed.`,
		Example: `  kubectl http-canary list
  kubectl http-canary list -A --watch
  kubectl http-canary list -A -o json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	options.addFlags(command)
	flags := command.Flags()
	addAllNamespaces(flags, &options.isAll)
	flags.BoolVarP(&options.watch, "watch", "w", false, "print a line at each change until interrupted")
	addTimeout(flags, &options.timeout, time.Minute, "maximum `time` of one reading")
	return command
}

// run lists canaries, once or until ctx ends.
func (l *listOptions) run(ctx context.Context, out, problems io.Writer) error {
	if l.watch && l.format == output.YAML {
		return usageError(watchFormatError(l.format))
	}
	namespace, err := l.conn.scope(l.isAll)
	if err != nil {
		return err
	}
	client, err := l.conn.client()
	if err != nil {
		return err
	}
	reader := gather.New(client, namespace)
	printer := newListPrinter(l, out, problems)
	for {
		cluster, err := l.read(ctx, reader)
		switch {
		case ctx.Err() != nil && printer.isStarted:
			return nil
		case err != nil && (!printer.isStarted || !kube.IsTransient(err)):
			return err
		case err == nil && (!printer.isStarted || !isIncomplete(cluster)):
			if !printer.isStarted {
				warnUnread(problems, cluster)
			}
			if err := printer.print(cluster); err != nil {
				return err
			}
		}
		if !l.watch {
			return nil
		}
		kube.Sleep(ctx, listInterval)
	}
}

// read reads the canaries within the time limit.
func (l *listOptions) read(ctx context.Context, reader *gather.Reader) (*facts.Facts, error) {
	ctx, cancel := withTimeout(ctx, l.timeout)
	defer cancel()
	return reader.Canaries(ctx)
}

// warnUnread names the resources that could not be read.
func warnUnread(problems io.Writer, cluster *facts.Facts) {
	for _, resource := range slices.Sorted(maps.Keys(cluster.Unread)) {
		// The list is printed in any case.
		_, _ = fmt.Fprintf(problems, "warning: %s cannot be read, so columns are incomplete: %v\n", resource,
			cluster.Unread[resource])
	}
}

// isIncomplete reports whether a resource could not be read because of a transient error. A watch skips such a reading:
// its rows would show changes that have not happened.
func isIncomplete(cluster *facts.Facts) bool {
	for _, err := range cluster.Unread {
		if kube.IsTransient(err) {
			return true
		}
	}
	return false
}

// canaryList is the JSON output of list.
type canaryList struct {
	Items []split.Entry `json:"items"`
}

// where describes the scope of the list.
func (l *listOptions) where() string {
	namespace, err := l.conn.scope(l.isAll)
	if err != nil || namespace == "" {
		return ""
	}
	return " in namespace " + namespace + " (-A: all namespaces)"
}
