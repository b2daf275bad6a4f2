// Package logtail returns the end of a log for an error message.
package logtail

import (
	"fmt"
	"os"
	"strings"
)

// lines is the number of lines.
const lines = 20

// Tail returns the last lines of the log at path, indented, below a line with the path. If the log cannot be read, it
// returns the reason.
func Tail(path string) string {
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
