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
		fmt.Fprintf(out, "\n$ %s\n  %s after %s; sudo prompted for the password %d time(s)\n", o.Line, verdict, o.Took.Round(time.Second), o.PasswordPrompts)
		for _, line := range o.Tail {
			fmt.Fprintln(out, "  | "+line)
		}
	}
	fmt.Fprintf(out, "\nminimum of available memory: %d MiB\n", s.MinMemoryMB)
	s.writeLeft(out)
}

func (s Report) writeLeft(out io.Writer) {
	for _, why := range slices.Sorted(maps.Keys(s.Left.Allowed)) {
		fmt.Fprintf(out, "%d files differ in %s: allowed\n", s.Left.Allowed[why], why)
	}
	if len(s.Left.UntilReboot) > 0 {
		fmt.Fprintln(out, "until the next boot there are (allowed):")
	}
	for _, line := range groupFindings(s.Left.UntilReboot) {
		fmt.Fprintln(out, "  "+line)
	}
	if s.Left.Clean() {
		fmt.Fprintln(out, "nothing else was left on the machine")
		return
	}
	fmt.Fprintf(out, "left on the machine: %d\n", len(s.Left.Left))
	for _, f := range s.Left.Left {
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
