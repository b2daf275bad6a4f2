package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// display has the flags about output that all commands have.
type display struct {
	color output.ColorMode
}

// addFlags adds the flags to the root command.
func (d *display) addFlags(root *cobra.Command) {
	d.color = output.Auto
	root.PersistentFlags().Var(&d.color, "color", "when to use colors: auto (on a terminal), always or never")
	// The error is for an unknown flag.
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(output.ColorModes(),
		cobra.ShellCompDirectiveNoFileComp))
}

// style returns the style for an output.
func (d *display) style(out io.Writer) output.Style {
	isTerminal := false
	if file, isFile := out.(*os.File); isFile {
		info, err := file.Stat()
		isTerminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return output.NewStyle(d.color, isTerminal, os.Getenv)
}

// outputFlags are the flags --output and --no-headers of a command.
type outputFlags struct {
	format    output.Format
	noHeaders bool
}

// addFormat adds flag --output to a command.
func (o *outputFlags) addFormat(command *cobra.Command) {
	o.format = output.Table
	command.Flags().VarP(&o.format, "output", "o", "output `format`: table, wide, json, yaml or name")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(),
		cobra.ShellCompDirectiveNoFileComp))
}

// addFlags adds both flags to a command that prints tables.
func (o *outputFlags) addFlags(command *cobra.Command) {
	o.addFormat(command)
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print tables without headers")
}
