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
const readLimit = 30 * time.Second

// newStatus returns the command that shows the traffic split of one Rollout.
func newStatus(way *way) *cobra.Command {
	var form output
	command := &cobra.Command{
		Use:   "status ROLLOUT",
		Short: "Show the traffic split of a Rollout, and whether it is applied",
		Long: `status shows the phase of a Rollout, its Services with their ready endpoints and desired weights, and for each routing
object the weights that are written to it and whether the data plane has applied them.

For kedify/http, "applied" is the report of the interceptor on the HTTPScaledObject: every Ready proxy has acknowledged the
weights. For argoproj-labs/gatewayAPI, it is the conditions Accepted and ResolvedRefs of the route's current generation.`,
		Example: `  kubectl http-canary status shop
  kubectl http-canary status rollout/shop --namespace shop --output yaml`,
		Args:              oneRollout,
		ValidArgsFunction: way.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			told, err := shared(command.Context(), way, args[0])
			if err != nil {
				return err
			}
			if form == outputJSON || form == outputYAML {
				return printObject(command.OutOrStdout(), form, told)
			}
			return printStatus(command.OutOrStdout(), told, form == outputWide)
		},
	}
	form.addFlag(command)
	return command
}

// oneRollout rejects anything but one positional argument.
func oneRollout(command *cobra.Command, args []string) error {
	return usage(cobra.ExactArgs(1)(command, args))
}

// readReport reads the traffic split of a Rollout.
func shared(ctx context.Context, way *way, argument string) (split.Sharing, error) {
	reader, name, err := way.rollout(argument)
	if err != nil {
		return split.Sharing{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cluster, err := reader.One(ctx, name)
	if err != nil {
		return split.Sharing{}, err
	}
	return split.Of(cluster, &cluster.Rollouts[0]), nil
}

// printStatus prints a report. The wide format adds the pod template hashes.
func printStatus(out io.Writer, told split.Sharing, isWide bool) error {
	var text strings.Builder
	phase := told.Phase
	if told.Message != "" {
		phase += " (" + told.Message + ")"
	}
	fmt.Fprintf(&text, "Rollout   %s\nPhase     %s\nStep      %d/%d\nReplicas  %d, %d updated, %d available\n\n", told.Rollout, phase, told.Step, told.Steps,
		told.Replicas.Total, told.Replicas.Updated, told.Replicas.Available)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	hash := func(of string) string {
		if isWide {
			return of + "\t"
		}
		return ""
	}
	fmt.Fprintf(table, "ROLE\tSERVICE\t%sENDPOINTS\tDESIRED", hash("PODS"))
	for i := range told.Objects {
		fmt.Fprintf(table, "\tWRITTEN %d", i+1)
	}
	for i, service := range told.Services {
		fmt.Fprintf(table, "\n%s\t%s\t%s%d\t%d", service.Role, service.Name, hash(service.Hash), service.Endpoints, service.Asked)
		for _, object := range told.Objects {
			fmt.Fprintf(table, "\t%s", written(object, i))
		}
	}
	fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return err
	}
	text.WriteString("\n")
	for i, object := range told.Objects {
		fmt.Fprintf(&text, "%d  %s: %s\n", i+1, object.Name, sentence(object))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// writtenWeight formats the weight of a Service in an object.
func written(object split.Object, at int) string {
	if object.Written == nil {
		return "?"
	}
	return strconv.FormatInt(object.Written[at], 10)
}

// describe describes whether the weights of an object are as desired and applied.
func sentence(object split.Object) string {
	if object.Problem != "" {
		return object.Problem
	}
	text := "weights as desired"
	if !object.AsAsked {
		text = "weights NOT as desired"
	}
	switch {
	case object.Taken != split.Yes:
		text += fmt.Sprintf(", applied: %s (%s)", object.Taken, object.Why)
	case object.Proxies != nil:
		text += fmt.Sprintf(", applied by %d of %d Ready proxies", object.Proxies.Acked, object.Proxies.Ready)
	default:
		text += ", applied"
	}
	return text
}
