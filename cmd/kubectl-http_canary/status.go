package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// errWatchFormat reports a format that cannot be watched.
var errWatchFormat = errors.New("use --output=json")

// watchFormatError returns the error for a format that cannot be watched.
func watchFormatError(format output.Format) error {
	return fmt.Errorf("--watch does not support --output=%s: %w", format, errWatchFormat)
}

// statusOptions are the flags of status.
type statusOptions struct {
	outputFlags

	conn             *connection
	show             *display
	watch, withCount bool
	goal             string
	timeout          time.Duration
}

// newStatus returns the command that shows the state of one canary.
func newStatus(conn *connection, show *display) *cobra.Command {
	options := &statusOptions{conn: conn, show: show}
	command := &cobra.Command{
		Use:   "status ROLLOUT|httpscaledobject/NAME",
		Short: "Show, watch or await the state of a canary: its weights, and whether they are applied",
		Long:  statusHelp(),
		Example: `  kubectl http-canary status shop
  kubectl http-canary status shop --watch --sent
  kubectl http-canary status httpscaledobject/shop --namespace shop --output yaml

  # In a pipeline: continue when every proxy applies 20 %
  kubectl http-canary status shop --for=verified=20 --timeout=5m`,
		Args:              oneRollout,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			return options.run(command.Context(), command.OutOrStdout(), args[0])
		},
	}
	options.addFlags(command)
	flags := command.Flags()
	flags.BoolVarP(&options.watch, "watch", "w", false, "print a line at each change until interrupted")
	flags.BoolVar(&options.withCount, "sent", false,
		"show the number of requests that each proxy has sent to each Service")
	flags.StringVar(&options.goal, "for", "",
		"wait for a `condition`: ready, written, verified, verified=WEIGHT or promoted")
	_ = command.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{
		"ready", "written", "verified",
		"promoted",
	}, cobra.ShellCompDirectiveNoFileComp))
	addTimeout(flags, &options.timeout, 5*time.Minute, statusTimeoutUsage)
	return command
}

// statusTimeoutUsage is the usage of --timeout.
const statusTimeoutUsage = "maximum `time` for the command or, with --watch, until its first line"

// statusHelp returns the help of status.
func statusHelp() string {
	return `status shows the phase of a Rollout, its conditions, and the weights of its Services: as desired by the
controller, as written to each routing object, and whether the data plane applies them. The argument
httpscaledobject/NAME selects the Rollout that references the object.

Conditions:
  Ready     nothing about the configuration or the data plane prevents the canary, which is not aborted or degraded
  Written   every routing object has the desired weights
  Verified  Written, and the data plane applies them. For ` + facts.HTTPRouter + `, every Ready proxy has acknowledged
            them; for ` + facts.GatewayRouter + `, the route's Accepted and ResolvedRefs are True
  Promoted  all requests go to the newest version, and no canary is in progress

--watch prints a line with the time at each change until interrupted; with --output json, one object per line.

--for waits until a condition is True: ready, written, verified or promoted. verified=20 waits until the canary has a
verified weight of 20. The exit code is 0 if the condition is True, 1 if it is not within --timeout, and 3 if the
canary was aborted or is degraded, so that the condition can no longer become True.

--sent also shows how many requests each Ready proxy of ` + facts.HTTPRouter + ` has sent to each Service, from the
counters of its Envoy. This requires permission to get pods/proxy in the namespace of the proxies.`
}

// oneRollout rejects anything but one positional argument.
func oneRollout(command *cobra.Command, args []string) error {
	return usageError(cobra.ExactArgs(1)(command, args))
}

// run shows, watches or awaits the state of a canary.
func (s *statusOptions) run(ctx context.Context, out io.Writer, argument string) error {
	if s.watch && (s.format == output.YAML || s.format == output.Name) {
		return usageError(watchFormatError(s.format))
	}
	if s.goal != "" && (s.watch || s.withCount) {
		return usageError(errWatchFor)
	}
	goal, err := parseGoal(s.goal)
	if err != nil {
		return usageError(err)
	}
	bounded, cancel := withTimeout(ctx, s.timeout)
	defer cancel()
	reader, name, unreferenced, err := s.conn.rolloutReader(bounded, argument)
	if err != nil {
		return err
	}
	switch {
	case unreferenced != nil:
		return s.printObject(out, unreferenced, name, goal)
	case goal != nil:
		return s.await(bounded, out, reader, name, goal)
	case s.watch:
		return s.watchSplit(ctx, out, reader, name)
	}
	cluster, err := reader.Rollout(bounded, name)
	if err != nil {
		return err
	}
	report, err := s.report(bounded, reader, cluster)
	if err != nil {
		return err
	}
	return s.print(out, &report)
}

// report returns the report of the Rollout of cluster.
func (s *statusOptions) report(ctx context.Context, reader *gather.Reader, cluster *facts.Facts) (split.Report, error) {
	if s.withCount {
		return reportWithCounts(ctx, reader, cluster)
	}
	return split.Of(cluster, &cluster.Rollouts[0]), nil
}

// errNoRollout reports a flag that requires a Rollout.
var errNoRollout = errors.New("is referenced by no Rollout: --watch, --sent and --for=promoted require one")

// printObject prints the state of an HTTPScaledObject that no Rollout references.
func (s *statusOptions) printObject(out io.Writer, cluster *facts.Facts, name types.NamespacedName, goal *goal) error {
	if s.watch || s.withCount || goal != nil {
		return fmt.Errorf("HTTPScaledObject %s %w", name, errNoRollout)
	}
	report := split.OfObject(cluster, cluster.HTTPScaledObject(name))
	return s.print(out, &report)
}

// print prints a report.
func (s *statusOptions) print(out io.Writer, report *split.Report) error {
	if s.format.IsObject() {
		return output.Print(out, s.format, "CanaryStatus", report)
	}
	if err := split.PrintStatus(out, s.format, !s.noHeaders, s.show.style(out), report); err != nil {
		return err
	}
	if s.format == output.Name {
		return nil
	}
	for _, object := range report.Objects {
		for _, counts := range object.Sent {
			if _, err := fmt.Fprintln(out, countsLine(counts, nil, 0)); err != nil {
				return err
			}
		}
	}
	return nil
}
