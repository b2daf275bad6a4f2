package walk

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/compare"
)

// Write writes the report in a readable form.
func (s Report) Write(out io.Writer) {
	for _, fact := range s.Machine {
		fmt.Fprintln(out, fact)
	}
	for _, o := range s.Outcomes {
		verdict := fmt.Sprintf("exit code %d", o.Code)
		if o.Problem != nil {
			verdict = o.Problem.Error()
		}
		fmt.Fprintf(out, "\n$ %s\n  %s after %s; sudo prompted for the password %d time(s)\n", o.Line, verdict,
			o.Took.Round(time.Second), o.PasswordPrompts)
		for _, line := range o.Tail {
			fmt.Fprintln(out, "  | "+line)
		}
	}
	fmt.Fprintf(out, "\nminimum of available memory: %d MiB\n", s.MinMemoryMB)
	s.writeDifferences(out)
}

func (s Report) writeDifferences(out io.Writer) {
	for _, reason := range slices.Sorted(maps.Keys(s.Differences.Allowed)) {
		fmt.Fprintf(out, "%d files differ in %s: allowed\n", s.Differences.Allowed[reason], reason)
	}
	if len(s.Differences.UntilReboot) > 0 {
		fmt.Fprintln(out, "until the next boot there are (allowed):")
	}
	for _, line := range groupFindings(s.Differences.UntilReboot) {
		fmt.Fprintln(out, "  "+line)
	}
	if s.Differences.Clean() {
		fmt.Fprintln(out, "nothing else was left on the machine")
		return
	}
	fmt.Fprintf(out, "left on the machine: %d\n", len(s.Differences.Unexpected))
	for _, f := range s.Differences.Unexpected {
		fmt.Fprintln(out, "  "+f.String())
	}
}

// groupFindings formats findings one per line, except kernel settings, which it groups: a kernel module adds dozens.
func groupFindings(findings []compare.Finding) []string {
	var out []string
	groups := map[string]int{}
	for _, f := range findings {
		end := strings.LastIndex(f.Item.Name, ".")
		if f.Section != compare.Sysctls || end < 0 {
			out = append(out, f.String())
			continue
		}
		groups[f.Item.Name[:end]]++
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, fmt.Sprintf("%s: %s: %s.* (%d)", compare.Sysctls, compare.New, group, groups[group]))
	}
	return out
}
