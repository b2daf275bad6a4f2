package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const scenariosPage = "docs/dev/addon-scenarios.md"

// TestScenariosExist: each test that the page about the scenarios of the KEDA HTTP add-on names exists in its package,
// with its subtest. Each row names at least one.
func TestScenariosExist(t *testing.T) {
	named := regexp.MustCompile("`((?:test|e2e)/[a-z/]+)` `(Test\\w+)(?:/([^`]+))?`")
	rows := 0
	for line := range strings.Lines(text(t, scenariosPage)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.Contains(cells[1], "---") || strings.TrimSpace(cells[1]) == "Scenario" {
			continue
		}
		rows++
		if !named.MatchString(cells[3]) {
			t.Errorf("%s: this row names no test: %s", scenariosPage, line)
		}
		for _, match := range named.FindAllStringSubmatch(line, -1) {
			checkTestExists(t, match[1], match[2], strings.ReplaceAll(match[3], "_", " "))
		}
	}
	if rows < 20 {
		t.Errorf("%s: found only %d rows", scenariosPage, rows)
	}
}

// checkTestExists checks that a package has a test function, and that a text in the function's file is the name of a
// subtest, if there is one.
func checkTestExists(t *testing.T, folder, name, subtest string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %s has no tests: %v", scenariosPage, folder, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)") {
			continue
		}
		if subtest != "" && !strings.Contains(string(source), `"`+subtest+`"`) {
			t.Errorf("%s: %s of %s has no subtest %q", scenariosPage, name, folder, subtest)
		}
		return
	}
	t.Errorf("%s: %s has no %s", scenariosPage, folder, name)
}
