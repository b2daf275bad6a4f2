// Package commandline tests the command line of a program without running the program.
package commandline

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

// NewCommand returns a command that reads its settings from flags and an environment, and calls run with them.
type NewCommand[Settings any] func(
	lookupEnv func(string) (string, bool), run func(context.Context, Settings, io.Writer) error,
) *cobra.Command

// Execute runs a command with an environment and arguments. It returns the settings that the command passes to run, its
// output and its error.
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
