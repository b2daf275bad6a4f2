package main

import (
	"context"
	"errors"
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
func newDoctor(conn *connection) *cobra.Command {
	var format outputFormat
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation for problems",
		Long: `doctor checks the Argo Rollouts controller and its plugins, permissions, Rollouts and the objects
that they reference, the data plane, and KEDA with the objects that it scales. For each problem it prints the
object, the problem and the fix. It changes nothing.

doctor checks applications in all namespaces, or in the one given by --namespace. A warning names the objects
that you are not allowed to read. The exit code is 3 if there is an error, and 0 if there are only warnings or
no problems.`,
		Example: `  # Check everything
  kubectl http-canary doctor

  # Check the applications in one namespace, with machine-readable output
  kubectl http-canary doctor --namespace shop --output json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := readFacts(command.Context(), conn, timeout)
			if err != nil {
				return err
			}
			return reportFindings(command.OutOrStdout(), format, cluster)
		},
	}
	format.addFlag(command)
	addTimeout(command.Flags(), &timeout, time.Minute, "maximum `time` for the command")
	return command
}

// readFacts reads an installation within a time limit.
func readFacts(ctx context.Context, conn *connection, timeout time.Duration) (*facts.Facts, error) {
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	client, err := conn.client()
	if err != nil {
		return nil, err
	}
	// Only --namespace selects one namespace: the namespace of the context does not.
	cluster, err := readAll(ctx, gather.New(client, conn.overrides.Context.Namespace))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("reading the cluster: not finished within %v: %w: increase --timeout", timeout,
			ctx.Err())
	}
	return cluster, err
}

// readAll reads everything that doctor needs, including permissions.
func readAll(ctx context.Context, reader *gather.Reader) (*facts.Facts, error) {
	cluster, err := reader.All(ctx)
	if err != nil {
		return nil, err
	}
	reader.ReviewPermissions(ctx, cluster, doctor.RequiredPermissions(cluster))
	return cluster, ctx.Err()
}

// reportFindings prints the findings. It returns errFinding if one of them is an error.
func reportFindings(out io.Writer, format outputFormat, cluster *facts.Facts) error {
	findings := doctor.Examine(cluster)
	if err := printFindings(out, format, cluster, findings); err != nil {
		return err
	}
	if doctor.HasError(findings) {
		return errFinding
	}
	return nil
}

// printFindings prints findings in an output format.
func printFindings(out io.Writer, format outputFormat, cluster *facts.Facts, findings []doctor.Finding) error {
	if format == formatJSON || format == formatYAML {
		if findings == nil {
			findings = []doctor.Finding{}
		}
		return printObject(out, format, map[string]any{"findings": findings})
	}
	var text strings.Builder
	if format == formatWide {
		fmt.Fprintf(&text,
			"Read: %d Rollouts, %d HTTPScaledObjects, %d routes, %d ScaledObjects, %d Services, %d nodes; %d "+
				"permissions reviewed\n",
			len(cluster.Rollouts), len(cluster.HTTPScaledObjects), len(cluster.Routes), len(cluster.ScaledObjects),
			len(cluster.Services), len(cluster.Nodes),
			len(cluster.Allowed))
	}
	for _, finding := range findings {
		object := finding.Object
		if finding.Field != "" {
			object += ": " + finding.Field
		}
		fmt.Fprintf(&text, "%s %s\n  object   %s\n  problem  %s\n  fix      %s\n  see      %s\n",
			strings.ToUpper(string(finding.Severity)), finding.Code, object, finding.Message, finding.Fix, finding.URL)
	}
	if len(findings) == 0 {
		text.WriteString("No problems found.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
