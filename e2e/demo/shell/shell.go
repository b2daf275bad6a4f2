// Package shell runs commands and prints each of them as a user would enter it, with its output.
package shell

import (
	"context"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// Screen shows the progress of the demo.
type Screen interface {
	// Print adds permanent lines.
	Print(lines ...string)
	// Frame replaces the live frame.
	Frame(lines []string)
	// Columns is the width of the screen.
	Columns() int
}

// Shell runs commands.
type Shell struct {
	// Runner runs the commands.
	Runner kube.Runner
	// Screen prints them, formatted by Style.
	Screen Screen
	Style  report.Style
	// Within is the time limit of each command.
	Within time.Duration
	// OnCommand is called with each command of ShowAll before it runs; it may be nil.
	OnCommand func(line string)
}

// Run runs one command without printing it.
func (s Shell) Run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	return s.Runner.Run(ctx, args...)
}

// Show runs one command, prints it with its output, and returns the output.
func (s Shell) Show(ctx context.Context, args ...string) (string, error) {
	out, err := s.Run(ctx, args...)
	s.Screen.Print(append([]string{s.Style.Command(Line(args))}, Lines(out)...)...)
	return out, err
}

// ShowAll runs commands in order and prints them with their output, up to the first that fails.
func (s Shell) ShowAll(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if s.OnCommand != nil {
			s.OnCommand(Line(args))
		}
		if _, err := s.Show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Lines splits the output of a command.
func Lines(out string) []string {
	out = strings.TrimRight(out, "\n")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// Line formats a command for a shell.
func Line(args []string) string {
	const special = ` '"\{}*?$&|;<>()`
	quoted := make([]string, 0, len(args))
	for _, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case !strings.ContainsAny(arg, special):
		case assigned && !strings.ContainsAny(name, special):
			arg = name + "=" + quote(value)
		default:
			arg = quote(arg)
		}
		quoted = append(quoted, arg)
	}
	return strings.Join(quoted, " ")
}

// quote quotes a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
