package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
)

// newDoctor returns the command that examines an installation.
func newDoctor(way *way) *cobra.Command {
	var form output
	var limit time.Duration
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with an installation",
		Long: `doctor reads the Argo Rollouts controller and its plugins, permissions, Rollouts and what they name, the data
path, KEDA and what it scales, and says what is wrong: where, and what to do about it. It changes nothing.

Applications of all namespaces are examined, or with --namespace those of one. What you may not read is not
examined, which is said. It exits with 3 where there is an error, with 0 where there is none or a warning only.`,
		Example: `  # Everything
  kubectl http-canary doctor

  # The applications of one namespace, for a program
  kubectl http-canary doctor --namespace shop --output json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := factsOf(command.Context(), way, limit)
			if err != nil {
				return err
			}
			return conclude(command.OutOrStdout(), form, cluster)
		},
	}
	form.addFlag(command)
	command.Flags().DurationVar(&limit, "time-limit", time.Minute, "`time` that all of it may take")
	return command
}

// factsOf reads an installation within a time limit.
func factsOf(ctx context.Context, way *way, limit time.Duration) (*facts.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := way.client()
	if err != nil {
		return nil, err
	}
	// Only a namespace that was asked for narrows down: the one of the context does not.
	cluster, err := examined(ctx, gather.New(client, way.overrides.Context.Namespace))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("no answer within %v: %w", limit, ctx.Err())
	}
	return cluster, err
}

// examined reads all that doctor asks about.
func examined(ctx context.Context, reader *gather.Reader) (*facts.Facts, error) {
	cluster, err := reader.All(ctx)
	if err != nil {
		return nil, err
	}
	reader.Ask(ctx, cluster, doctor.Questions(cluster))
	return cluster, ctx.Err()
}

// conclude prints what is wrong, and ends with errFinding where that is an error.
func conclude(out io.Writer, form output, cluster *facts.Facts) error {
	found := doctor.Examine(cluster)
	if err := printFindings(out, form, cluster, found); err != nil {
		return err
	}
	if doctor.HasError(found) {
		return errFinding
	}
	return nil
}

// printFindings prints findings in a form.
func printFindings(out io.Writer, form output, cluster *facts.Facts, found []doctor.Finding) error {
	if form == outputJSON || form == outputYAML {
		if found == nil {
			found = []doctor.Finding{}
		}
		return printObject(out, form, map[string]any{"findings": found})
	}
	var text strings.Builder
	if form == outputWide {
		fmt.Fprintf(&text, "Read: %d Rollouts, %d HTTPScaledObjects, %d routes, %d ScaledObjects, %d Services, %d nodes; %d permissions asked for\n",
			len(cluster.Rollouts), len(cluster.HTTPScaledObjects), len(cluster.Routes), len(cluster.ScaledObjects), len(cluster.Services), len(cluster.Nodes),
			len(cluster.Allowed))
	}
	for _, finding := range found {
		place := finding.Object
		if finding.Field != "" {
			place += ": " + finding.Field
		}
		fmt.Fprintf(&text, "%s %s\n  at      %s\n  because %s\n  remedy  %s\n", strings.ToUpper(string(finding.Severity)), finding.Code, place,
			finding.Message, finding.Remedy)
	}
	if len(found) == 0 {
		text.WriteString("Nothing is wrong.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
