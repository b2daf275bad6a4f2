package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// ApplyEnvironment sets each flag that was not given to what the environment says. Its variable is prefix and
// the flag's name in capitals with underscores, such as PREFIX_LOG_LEVEL for --log-level; where
// that is not set, the one that alternatives has for the flag's name. The error names each variable
// whose value the flag refuses.
func ApplyEnvironment(
	flags *pflag.FlagSet, prefix string, alternatives map[string]string,
	lookup func(string) (string, bool),
) error {
	var failed error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" || flag.Name == "version" {
			return
		}
		own := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		for _, variable := range []string{own, alternatives[flag.Name]} {
			value, found := lookup(variable)
			if !found {
				continue
			}
			if err := flags.Set(flag.Name, value); err != nil {
				failed = errors.Join(failed, fmt.Errorf("environment variable %s: %w", variable, err))
			}
			return
		}
	})
	return failed
}
