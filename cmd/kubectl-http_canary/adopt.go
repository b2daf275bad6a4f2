package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/adopt"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// newAdopt returns the command that prints the manifests for a Rollout without a router.
func newAdopt(conn *connection) *cobra.Command {
	var options outputFlags
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "adopt ROLLOUT",
		Short: "Print the manifests that make a Rollout use router kedify/http",
		Long: `adopt prints the manifests that a Rollout with canary steps needs for router kedify/http: the canary
Service, a ScaledObject that takes over the HorizontalPodAutoscaler, and the Rollout with the router added.
Comments list what to know before you apply them, and the changes in the Rollout.

It reads the Rollout, its Service, the Ingresses that reference the Service and the HorizontalPodAutoscaler. It
changes nothing. Review the output, then apply it with server-side apply.`,
		Example: `  kubectl http-canary adopt rollout/shop
  kubectl http-canary adopt shop | kubectl apply --server-side -f -`,
		Args:              oneRollout,
		ValidArgsFunction: conn.completeRollout,
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := withTimeout(command.Context(), timeout)
			defer cancel()
			proposal, err := propose(ctx, conn, args[0])
			if err != nil {
				return err
			}
			if options.format.IsObject() {
				return output.Print(command.OutOrStdout(), options.format, "Proposal", proposal)
			}
			return printProposal(command.OutOrStdout(), proposal)
		},
	}
	options.addFormat(command)
	addTimeout(command.Flags(), &timeout, readTimeout, "maximum `time` for the command")
	return command
}

// propose reads a Rollout and the related objects in its namespace, and returns the proposal.
func propose(ctx context.Context, conn *connection, argument string) (adopt.Proposal, error) {
	reader, name, _, err := conn.rolloutReader(ctx, argument)
	if err != nil {
		return adopt.Proposal{}, err
	}
	app, err := reader.Application(ctx, name)
	if err != nil {
		return adopt.Proposal{}, err
	}
	proposal, err := adopt.Propose(app)
	if err != nil {
		return adopt.Proposal{}, fmt.Errorf("rollout %s: %w", name, err)
	}
	return proposal, nil
}

// printProposal prints the objects as YAML documents, and the notes and the diff as comments.
func printProposal(out io.Writer, proposal adopt.Proposal) error {
	var text strings.Builder
	for _, note := range proposal.Notes {
		fmt.Fprintf(&text, "# %s\n", note)
	}
	for i, object := range proposal.Objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(document)
	}
	text.WriteString("# Changes in spec.strategy.canary of the Rollout:\n")
	for _, line := range proposal.Diff {
		fmt.Fprintf(&text, "# %s\n", line)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
