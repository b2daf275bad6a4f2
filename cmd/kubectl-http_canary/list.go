package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
` + listInterval.String() + `.`,
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
		return usageError(errWatchFormat)
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
	shown, isFirst := map[string]string{}, true
	for {
		cluster, err := l.read(ctx, reader)
		switch {
		case ctx.Err() != nil && !isFirst:
			return nil
		case err != nil && (isFirst || !kube.IsTransient(err)):
			return err
		case err == nil:
			if isFirst {
				warnUnread(problems, cluster)
			}
			if err := l.print(out, problems, cluster, shown, isFirst); err != nil {
				return err
			}
			isFirst = false
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
	for resource, err := range cluster.Unread {
		// The list is printed in any case.
		_, _ = fmt.Fprintf(problems, "warning: %s cannot be read, so columns are incomplete: %v\n", resource, err)
	}
}

// canaryList is the JSON output of list.
type canaryList struct {
	Items []split.Entry `json:"items"`
}

// print prints all canaries or, if watching, those that differ from the previous call.
func (l *listOptions) print(out, problems io.Writer, cluster *facts.Facts, shown map[string]string, isFirst bool,
) error {
	all := split.List(cluster)
	if l.watch {
		var changed []split.Entry
		for _, entry := range all {
			state, err := json.Marshal(entry)
			if err != nil {
				return err
			}
			key := entry.Namespace + "/" + entry.Name
			if shown[key] != string(state) {
				changed = append(changed, entry)
			}
			shown[key] = string(state)
		}
		all = changed
	}
	switch {
	case l.watch && l.format == output.JSON:
		for _, entry := range all {
			if err := output.PrintLine(out, "Canary", entry); err != nil {
				return err
			}
		}
		return nil
	case l.format.IsObject():
		return output.Print(out, l.format, "CanaryList", canaryList{Items: all})
	case len(all) == 0:
		if isFirst {
			_, err := fmt.Fprintf(problems, "No Rollout uses a router of this project%s.\n", l.where())
			return err
		}
		return nil
	}
	return split.PrintList(out, l.format, !l.noHeaders && isFirst, l.isAll, all, cluster.Now)
}

// where describes the scope of the list.
func (l *listOptions) where() string {
	namespace, err := l.conn.scope(l.isAll)
	if err != nil || namespace == "" {
		return ""
	}
	return " in namespace " + namespace + " (-A: all namespaces)"
}
