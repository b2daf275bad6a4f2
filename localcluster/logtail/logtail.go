// Package logtail shows the end of a log where something failed.
package logtail

import (
	"fmt"
	"os"
	"strings"
)

// lines is how much of a log is shown.
const lines = 20

// Of returns the last lines of the log at path, indented, below a line that
// names it; of a log that cannot be read it says why.
func Of(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("last lines of %s:\n  %s", path, strings.Join(all, "\n  "))
}
