package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// newExplain returns the command that explains findings.
func newExplain(show *display) *cobra.Command {
	options := &outputFlags{}
	command := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a finding of doctor: its meaning, its cause and its fix",
		Long: `explain prints what a finding means, how it comes about and how to fix it, with the example and the fix of one
broken installation. Without a code it lists all codes. It does not connect to a cluster.`,
		Example: `  kubectl http-canary explain
  kubectl http-canary explain PluginNotRegistered`,
		Args: func(command *cobra.Command, args []string) error {
			return usageError(cobra.MaximumNArgs(1)(command, args))
		},
		ValidArgsFunction: cobra.FixedCompletions(codeNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return options.explainAll(command.OutOrStdout())
			}
			explained, err := doctor.Explain(args[0])
			if err != nil {
				return usageError(err)
			}
			switch {
			case options.format.IsObject():
				return output.Print(command.OutOrStdout(), options.format, "Explanation", explained)
			case options.format == output.Name:
				return doctor.PrintExplanations(command.OutOrStdout(), output.Name, false, []doctor.Explanation{explained})
			}
			return doctor.PrintExplanation(command.OutOrStdout(), show.style(command.OutOrStdout()), &explained)
		},
	}
	options.addFlags(command)
	return command
}

// explainAll lists all codes.
func (o *outputFlags) explainAll(out io.Writer) error {
	all, err := doctor.Explanations()
	if err != nil {
		return err
	}
	if o.format.IsObject() {
		return output.Print(out, o.format, "ExplanationList", map[string]any{"items": all})
	}
	return doctor.PrintExplanations(out, o.format, !o.noHeaders, all)
}

// codeNames returns all codes for completion.
func codeNames() []string {
	all, err := doctor.Explanations()
	if err != nil {
		return nil
	}
	var names []string
	for i := range all {
		names = append(names, string(all[i].Code))
	}
	return names
}
