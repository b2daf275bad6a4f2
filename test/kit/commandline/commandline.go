// Package commandline runs a program's command line for a test, without the program behind it.
package commandline

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

// NewCommand makes a command line that looks settings up in an environment, too, and calls run with those that it arrives at.
type NewCommand[Settings any] func(
	lookupEnv func(string) (string, bool), run func(context.Context, Settings, io.Writer) error,
) *cobra.Command

// Execute runs a command line with an environment, and returns the settings that it arrives at, its output and its error.
func Execute[Settings any](
	t *testing.T, newCommand NewCommand[Settings], environment map[string]string, args ...string,
) (chosen Settings, output string, err error) {
	t.Helper()
	lookupEnv := func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}
	command := newCommand(lookupEnv, func(_ context.Context, s Settings, _ io.Writer) error {
		chosen = s
		return nil
	})
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err = command.ExecuteContext(t.Context())
	return chosen, out.String(), err
}
