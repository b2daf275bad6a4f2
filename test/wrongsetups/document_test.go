package wrongsetups_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document is the page that shows the set-ups.
const document = "../../docs/reference/wrong-setups.md"

// update makes TestDocument write the page. No cluster is started then.
var update = flag.Bool("update", false, "write the table of docs/reference/wrong-setups.md")

// TestDocument compares the table of the page with the tested set-ups.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- setups -->\n", "<!-- end of setups -->\n"
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("the page has no marks of the table: add %q and %q", begin, end)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/reference/wrong-setups.md differs from the tests (-tested +document); run `make reference`:\n%s", diff)
	}
}

// table returns the table of the set-ups.
func table() string {
	var rows strings.Builder
	rows.WriteString("| Wrong set-up | Where | Message | Finding | Fix |\n|---|---|---|---|---|\n")
	for _, row := range append(setups(), narrowed()) {
		message, findings := "–", []string{"–"}
		if row.message != "" {
			message = "`" + row.message + "`"
		}
		if len(row.codes) > 0 {
			findings = nil
		}
		for _, code := range row.codes {
			findings = append(findings, fmt.Sprintf("[`%s`](findings.md#%s)", code, strings.ToLower(code)))
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", row.name, row.place, message, strings.Join(findings, ", "), row.fix)
	}
	return rows.String()
}
