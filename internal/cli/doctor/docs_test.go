package doctor_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
)

// documented returns the codes in docs/reference/cli.md with their severities.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- codes -->")
	table, _, _ = strings.Cut(table, "<!-- end of codes -->")
	codes := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([a-z, ]+) \\|").FindAllStringSubmatch(table, -1) {
		codes[row[1]] = row[2]
	}
	return codes
}

// TestCodesOfTheReferenceAreGenerated: docs/reference/cli.md has the severity and the summary of each code from
// catalog.yaml.
func TestCodesOfTheReferenceAreGenerated(t *testing.T) {
	t.Parallel()
	const name, begin, end = "../../../docs/reference/cli.md", "<!-- codes -->\n", "<!-- end of codes -->"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := doctor.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString(begin + "| Code | Severity | What is wrong |\n|---|---|---|\n")
	for _, explained := range all {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", explained.Code, explained.Severity, explained.Summary)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	_, after, _ := strings.Cut(rest, end)
	compareFile(t, name, before+table.String()+end+after)
}

func TestEveryCodeIsTestedAndDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("finding.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, match := range regexp.MustCompile(`Code += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, match[1])
	}
	slices.Sort(declared)
	broken := map[string]string{}
	for _, test := range breakages() {
		severity := string(test.severity)
		if severity == "" {
			severity = "error"
		}
		if severities := broken[string(test.code)]; !strings.Contains(severities, severity) {
			broken[string(test.code)] = strings.TrimPrefix(severities+", "+severity, ", ")
		}
	}
	if diff := cmp.Diff(broken, documented(t)); diff != "" {
		t.Errorf("codes and severities (-covered by a breakage +documented):\n%s", diff)
	}
	for _, code := range declared {
		if broken[code] == "" {
			t.Errorf("no breakage covers %s", code)
		}
	}
	if len(declared) != len(broken) {
		t.Errorf("%d codes are declared, but %d are covered by breakages", len(declared), len(broken))
	}
}
