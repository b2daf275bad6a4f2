package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// readTimeout bounds the reading of one Rollout.
const readTimeout = 30 * time.Second

// newStatus returns the command that shows the traffic split of one Rollout.
func newStatus(conn *connection) *cobra.Command {
	var format outputFormat
	command := &cobra.Command{
		Use:   "status ROLLOUT",
		Short: "Show the traffic split of a Rollout, and whether it is applied",
		Long: `status shows the phase of a Rollout, its Services with their ready endpoints and desired weights,
and for each routing object the weights that are written to it and whether the data plane has applied them.

For kedify/http, "applied" is the report of the interceptor on the HTTPScaledObject: every Ready proxy has
acknowledged the weights. For argoproj-labs/gatewayAPI, it is the conditions Accepted and ResolvedRefs of the
route's current generation.`,
		Example: `  kubectl http-canary status shop
  kubectl http-canary status rollout/shop --namespace shop --output yaml`,
		Args:              oneRollout,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			report, err := readReport(command.Context(), conn, args[0])
			if err != nil {
				return err
			}
			if format == formatJSON || format == formatYAML {
				return printObject(command.OutOrStdout(), format, report)
			}
			return printStatus(command.OutOrStdout(), report, format == formatWide)
		},
	}
	format.addFlag(command)
	return command
}

// oneRollout rejects anything but one positional argument.
func oneRollout(command *cobra.Command, args []string) error {
	return usageError(cobra.ExactArgs(1)(command, args))
}

// readReport reads the traffic split of a Rollout.
func readReport(ctx context.Context, conn *connection, argument string) (split.Report, error) {
	reader, name, err := conn.rolloutReader(argument)
	if err != nil {
		return split.Report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cluster, err := reader.Rollout(ctx, name)
	if err != nil {
		return split.Report{}, err
	}
	return split.Of(cluster, &cluster.Rollouts[0]), nil
}

// printStatus prints a report. The wide format adds the pod template hashes.
func printStatus(out io.Writer, report split.Report, isWide bool) error {
	var text strings.Builder
	phase := report.Phase
	if report.Message != "" {
		phase += " (" + report.Message + ")"
	}
	fmt.Fprintf(&text, "Rollout   %s\nPhase     %s\nStep      %d/%d\nReplicas  %d, %d updated, %d available\n\n",
		report.Rollout, phase, report.Step, report.Steps,
		report.Replicas.Total, report.Replicas.Updated, report.Replicas.Available)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	hash := func(value string) string {
		if isWide {
			return value + "\t"
		}
		return ""
	}
	fmt.Fprintf(table, "ROLE\tSERVICE\t%sENDPOINTS\tDESIRED", hash("PODS"))
	for i := range report.Objects {
		fmt.Fprintf(table, "\tWRITTEN %d", i+1)
	}
	for i, service := range report.Services {
		fmt.Fprintf(table, "\n%s\t%s\t%s%d\t%d", service.Role, service.Name, hash(service.Hash), service.Endpoints,
			service.Desired)
		for _, object := range report.Objects {
			fmt.Fprintf(table, "\t%s", writtenWeight(object, i))
		}
	}
	fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return err
	}
	text.WriteString("\n")
	for i, object := range report.Objects {
		fmt.Fprintf(&text, "%d  %s: %s\n", i+1, object.Name, describe(object))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// writtenWeight formats the weight of a Service in an object.
func writtenWeight(object split.Object, index int) string {
	if object.Written == nil {
		return "?"
	}
	return strconv.FormatInt(object.Written[index], 10)
}

// describe describes whether the weights of an object are as desired and applied.
func describe(object split.Object) string {
	if object.Problem != "" {
		return object.Problem
	}
	text := "weights as desired"
	if !object.AsDesired {
		text = "weights NOT as desired"
	}
	switch {
	case object.Applied != split.Yes:
		text += fmt.Sprintf(", applied: %s (%s)", object.Applied, object.Reason)
	case object.Proxies != nil:
		text += fmt.Sprintf(", applied by %d of %d Ready proxies", object.Proxies.Acked, object.Proxies.Ready)
	default:
		text += ", applied"
	}
	return text
}
