package refusals_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
	"github.com/kedify/argo-rollouts-plugin/test/refusals"
)

// document is the page that shows both tables.
const document = "../../docs/reference/errors.md"

var update = flag.Bool("update", false, "write the tables of docs/reference/errors.md")

// TestDocument compares the tables of the page with the tested rows.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"objects": objectsTable(), "calls": callsTable()} {
		want = withTable(t, want, name, table)
	}
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/reference/errors.md differs from the tests (-tested +document); run this test with -update:\n%s", diff)
	}
}

// withTable replaces the text between the marks of a table.
func withTable(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, hasBegin := strings.Cut(text, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s: no marks of the table: add %q and %q", document, begin, end)
	}
	return before + begin + table + end + after
}

// objectsTable returns the table of invalid objects.
func objectsTable() string {
	meanwhile := map[string]string{
		"canary": "the last good route", "stable": "the stable Service answers",
		"503": "503 with `Retry-After`: no Pod can answer", "404": "404: not routed",
	}
	var table strings.Builder
	table.WriteString("| Invalid configuration | Reason | Message of the condition and the Event | " +
		"Requests meanwhile |\n|---|---|---|---|\n")
	for _, row := range refusals.InvalidObjects() {
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", row.Name, row.Reason, code(row.Message), meanwhile[row.Answers])
	}
	return table.String()
}

// callsTable returns the table of invalid calls.
func callsTable() string {
	var table strings.Builder
	table.WriteString("| Invalid configuration | Error |\n|---|---|\n")
	for _, row := range routertest.InvalidCalls() {
		if row.Want == "" {
			fmt.Fprintf(&table, "| %s | none |\n", row.Name)
			continue
		}
		fmt.Fprintf(&table, "| %s | %s |\n", row.Name, code(row.Want))
	}
	return table.String()
}

// code returns text as a code span in a table cell: with more backquotes around it than in it, and with escaped pipes.
func code(text string) string {
	mark := "`"
	if strings.Contains(text, mark) {
		mark = "``"
	}
	return mark + strings.ReplaceAll(text, "|", `\|`) + mark
}
