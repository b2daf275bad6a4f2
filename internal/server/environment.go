package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// ApplyEnvironment sets each flag that isn't on the command line from its environment variable. The variable is prefix
// followed by the flag's name in capitals with underscores, such as PREFIX_LOG_LEVEL for --log-level. If it isn't set,
// the variable in alternatives is used. The error contains each variable with an invalid value.
func ApplyEnvironment(
	flags *pflag.FlagSet, prefix string, alternatives map[string]string,
	lookup func(string) (string, bool),
) error {
	var failed error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" || flag.Name == "version" {
			return
		}
		prefixed := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		for _, variable := range []string{prefixed, alternatives[flag.Name]} {
			value, isSet := lookup(variable)
			if !isSet {
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
