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

// newDoctor returns the command that checks an installation.
func newDoctor(way *way) *cobra.Command {
	var form output
	var limit time.Duration
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation for problems",
		Long: `doctor checks the Argo Rollouts controller and its plugins, permissions, Rollouts and the objects that they reference,
the data plane, and KEDA with the objects that it scales. For each problem it prints the object, the problem and the fix.
It changes nothing.

doctor checks applications in all namespaces, or in the one given by --namespace. A warning names the objects that you
are not allowed to read. The exit code is 3 if there is an error, and 0 if there are only warnings or no problems.`,
		Example: `  # Check everything
  kubectl http-canary doctor

  # Check the applications in one namespace, with machine-readable output
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
	command.Flags().DurationVar(&limit, "time-limit", time.Minute, "maximum `time` for the command")
	return command
}

// readFacts reads an installation within a time limit.
func factsOf(ctx context.Context, way *way, limit time.Duration) (*facts.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := way.client()
	if err != nil {
		return nil, err
	}
	// Only --namespace selects one namespace: the namespace of the context does not.
	cluster, err := examined(ctx, gather.New(client, way.overrides.Context.Namespace))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading the cluster: not finished within %v: %w: increase --time-limit", limit, ctx.Err())
	}
	return cluster, err
}

// readAll reads everything that doctor needs, including permissions.
func examined(ctx context.Context, reader *gather.Reader) (*facts.Facts, error) {
	cluster, err := reader.All(ctx)
	if err != nil {
		return nil, err
	}
	reader.Ask(ctx, cluster, doctor.Questions(cluster))
	return cluster, ctx.Err()
}

// reportFindings prints the findings. It returns errFinding if one of them is an error.
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

// printFindings prints findings in an output format.
func printFindings(out io.Writer, form output, cluster *facts.Facts, found []doctor.Finding) error {
	if form == outputJSON || form == outputYAML {
		if found == nil {
			found = []doctor.Finding{}
		}
		return printObject(out, form, map[string]any{"findings": found})
	}
	var text strings.Builder
	if form == outputWide {
		fmt.Fprintf(&text, "Read: %d Rollouts, %d HTTPScaledObjects, %d routes, %d ScaledObjects, %d Services, %d nodes; %d permissions reviewed\n",
			len(cluster.Rollouts), len(cluster.HTTPScaledObjects), len(cluster.Routes), len(cluster.ScaledObjects), len(cluster.Services), len(cluster.Nodes),
			len(cluster.Allowed))
	}
	for _, finding := range found {
		place := finding.Object
		if finding.Field != "" {
			place += ": " + finding.Field
		}
		fmt.Fprintf(&text, "%s %s\n  object   %s\n  problem  %s\n  fix      %s\n", strings.ToUpper(string(finding.Severity)), finding.Code, place,
			finding.Message, finding.Remedy)
	}
	if len(found) == 0 {
		text.WriteString("No problems found.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
