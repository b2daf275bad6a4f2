// Package shell runs commands in front of a reader: each is printed as one would type it, with what it
// says.
package shell

import (
	"context"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// Screen shows how the demo goes on.
type Screen interface {
	// Print adds lines that stay.
	Print(lines ...string)
	// Frame replaces the live frame.
	Frame(lines []string)
	// Columns is the width of the screen.
	Columns() int
}

// Shell is a place for commands.
type Shell struct {
	// Runner runs the commands.
	Runner kube.Runner
	// Screen shows them, drawn in Style.
	Screen Screen
	Style  report.Style
	// Within bounds each command.
	Within time.Duration
	// Doing is told each command of ShowAll before it runs; nil tells nobody.
	Doing func(line string)
}

// Run runs one command without showing it.
func (s Shell) Run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	return s.Runner.Run(ctx, args...)
}

// Show runs one command and prints it with what it says. It returns that, too.
func (s Shell) Show(ctx context.Context, args ...string) (string, error) {
	out, err := s.Run(ctx, args...)
	s.Screen.Print(append([]string{s.Style.Command(Line(args))}, Lines(out)...)...)
	return out, err
}

// ShowAll runs commands one after the other and prints them with what they say, up to the first that fails.
func (s Shell) ShowAll(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if s.Doing != nil {
			s.Doing(Line(args))
		}
		if _, err := s.Show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Lines splits what a command said.
func Lines(out string) []string {
	out = strings.TrimRight(out, "\n")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// Line is a command as one would type it into a shell.
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

// quote keeps a shell from reading anything into a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
