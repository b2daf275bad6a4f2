package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// None is the last line of a report without findings.
const None = "No problems found.\n"

// Print prints a report: each check with its mark, and below it its findings. Format Wide also prints skipped checks and
// the documentation of passed ones, format Name the codes of the findings. isQuiet leaves out the checks that have
// passed.
func Print(out io.Writer, format output.Format, style output.Style, isQuiet bool, report *Report) error {
	var text strings.Builder
	if format == output.Name {
		for _, finding := range report.Findings {
			fmt.Fprintln(&text, finding.Code)
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
	last := Category("")
	for _, check := range report.Checks {
		if check.Status == output.Skipped && format != output.Wide || check.Status == output.Passed && isQuiet {
			continue
		}
		if check.Category != last {
			if last != "" {
				text.WriteString("\n")
			}
			last = check.Category
			fmt.Fprintf(&text, "%s\n", style.Title(string(last)))
		}
		printCheck(&text, format, style, &check)
	}
	if last != "" {
		text.WriteString("\n")
	}
	summarize(&text, format, report)
	_, err := io.WriteString(out, text.String())
	return err
}

// printCheck prints one check.
func printCheck(text *strings.Builder, format output.Format, style output.Style, check *Check) {
	line := style.Mark(check.Status) + " " + check.Title
	if check.Detail != "" {
		line += style.Dim(" (" + check.Detail + ")")
	}
	fmt.Fprintln(text, line)
	if format == output.Wide {
		fmt.Fprintf(text, "    %s\n", style.Dim(check.URL))
	}
	for _, finding := range check.Findings {
		printFinding(text, style, &finding, "    ")
	}
}

// printFinding prints one finding.
func printFinding(text *strings.Builder, style output.Style, finding *Finding, indent string) {
	object := finding.Object
	if finding.Field != "" {
		object += ": " + finding.Field
	}
	fmt.Fprintf(text, "%[1]s%[2]s (%[3]s)\n%[1]s  object   %[4]s\n%[1]s  problem  %[5]s\n%[1]s  fix      %[6]s\n"+
		"%[1]s  see      %[7]s\n", indent, style.Title(string(finding.Code)), finding.Severity, object, finding.Message,
		finding.Fix, style.Dim(finding.URL))
}

// summarize prints the numbers of findings, what was checked, and what was not.
func summarize(text *strings.Builder, format output.Format, report *Report) {
	for _, unknown := range report.Unknown {
		fmt.Fprintf(text, "Not checked: %s\n", unknown)
	}
	if report.Namespace != "" {
		fmt.Fprintf(text, "Applications of namespace %s only; -A checks those of all namespaces.\n", report.Namespace)
	}
	if report.Summary.Skipped > 0 && format == output.Wide {
		fmt.Fprintf(text, "%s passed, %d skipped.\n", count(report.Summary.Passed, "check"), report.Summary.Skipped)
	}
	if len(report.Findings) == 0 {
		text.WriteString(None)
		return
	}
	fmt.Fprintf(text, "%s, %s. \"kubectl http-canary explain CODE\" explains a finding.\n",
		count(report.Summary.Errors, "error"), count(report.Summary.Warnings, "warning"))
}

// PrintFindings prints findings without checks, as after an installation.
func PrintFindings(out io.Writer, style output.Style, findings []Finding) error {
	var text strings.Builder
	for i := range findings {
		level := output.Warned
		if findings[i].Severity == Error {
			level = output.Failed
		}
		text.WriteString(style.Mark(level) + " ")
		var lines strings.Builder
		printFinding(&lines, style, &findings[i], "  ")
		text.WriteString(strings.TrimPrefix(lines.String(), "  "))
	}
	if len(findings) == 0 {
		text.WriteString(None)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
