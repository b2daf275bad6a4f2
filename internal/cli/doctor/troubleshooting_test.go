package doctor_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

// troubleshooting is the page that lists findings by symptom.
const troubleshooting = "../../../docs/reference/findings.md"

var update = flag.Bool("update", false, "write the tables of the pages and the golden files")

// examples returns the first finding of each code in the breakages.
func examples(t *testing.T) map[string]doctor.Finding {
	t.Helper()
	first := map[string]doctor.Finding{}
	for _, test := range breakages() {
		if _, findings := first[string(test.code)]; findings {
			continue
		}
		cluster := healthy(t)
		test.change(t, cluster)
		for _, finding := range test.examine(cluster) {
			first[string(finding.Code)] = finding
		}
	}
	return first
}

// TestTroubleshootingPageHasEveryFinding: the page lists each finding once, in the words of doctor.
func TestTroubleshootingPageHasEveryFinding(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	findings, listed := examples(t), map[string]int{}
	tables := regexp.MustCompile(`(?s)(<!-- findings: ([\w ]+) -->\n).*?(<!-- end of findings -->)`)
	wanted := tables.ReplaceAllStringFunc(string(page), func(table string) string {
		parts := tables.FindStringSubmatch(table)
		var rows strings.Builder
		for code := range strings.FieldsSeq(parts[2]) {
			finding, ok := findings[code]
			if !ok {
				t.Errorf("the page lists %s, which no breakage has", code)
			}
			listed[code]++
			if want := events.FindingsPage + "#" + strings.ToLower(code); finding.URL != want {
				t.Errorf("%s links to %q, want %q", code, finding.URL, want)
			}
			fmt.Fprintf(&rows, "| <a id=%q></a>`%s` | %s | %s |\n", strings.ToLower(code), code, cell(finding.Message),
				cell(finding.Fix))
		}
		return parts[1] + "| Finding | Problem | Fix |\n|---|---|---|\n" + rows.String() + parts[3]
	})
	for code := range findings {
		if listed[code] != 1 {
			t.Errorf("the page lists %s %d times, want once: add it below its symptom", code, listed[code])
		}
	}
	if *update {
		err = os.WriteFile(troubleshooting, []byte(wanted), 0o644)
	}
	compareFile(t, "examples.json", examplesJSON(t, findings))
	if diff := cmp.Diff(wanted, string(page)); err != nil || diff != "" && !*update {
		t.Errorf("docs/reference/findings.md is outdated: run this test with -update (%v) (-doctor +page):\n%s", err,
			diff)
	}
}

// examplesJSON formats examples for the embedded file that explain prints.
func examplesJSON(t *testing.T, findings map[string]doctor.Finding) string {
	t.Helper()
	text, err := json.MarshalIndent(findings, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// cell formats a text for a table cell: one line, with | and angle brackets escaped.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
}
