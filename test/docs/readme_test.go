package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// text reads a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// block returns the YAML block with this mark in a page.
func block(t *testing.T, page, mark string) map[string]any {
	t.Helper()
	match := regexp.MustCompile("(?s)```yaml " + mark + "\n(.*?)```").FindStringSubmatch(text(t, page))
	if match == nil {
		t.Fatalf("%s has no block %q", page, mark)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(match[1]), &parsed); err != nil {
		t.Fatalf("%s: block %q: %v", page, mark, err)
	}
	return parsed
}

// strategies returns the canary strategies of the Rollouts in a file. Text around the manifests is ignored.
func strategies(t *testing.T, name string) []any {
	t.Helper()
	var list []any
	for _, document := range regexp.MustCompile("\n---\n|```yaml\n|```\n").Split(text(t, name), -1) {
		var object struct {
			Kind string
			Spec struct{ Strategy any }
		}
		if strings.Contains(document, "kind: Rollout\n") && yaml.Unmarshal([]byte(document), &object) == nil &&
			object.Kind == "Rollout" {
			list = append(list, object.Spec.Strategy)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no Rollout", name)
	}
	return list
}

// TestREADMEShowsTestedRollouts: the Rollouts in README are those of the example and of the Gateway API tutorial, which
// tests run.
func TestREADMEShowsTestedRollouts(t *testing.T) {
	for mark, tested := range map[string]string{
		"rollout": "examples/argo-rollouts-canary/manifests.yaml", "rollout gatewayapi": "docs/tutorials/gateway-api.md",
	} {
		shown, _ := block(t, "README.md", mark)["spec"].(map[string]any)
		if diff := cmp.Diff(strategies(t, tested)[0], shown["strategy"]); diff != "" {
			t.Errorf("block %q and %s (-tested +shown):\n%s", mark, tested, diff)
		}
	}
}

// TestREADMEMeasurementsAreVerified: each value of README's table is in the test, page or record that verifies it.
func TestREADMEMeasurementsAreVerified(t *testing.T) {
	_, table, _ := strings.Cut(text(t, "README.md"), "<!-- figures -->")
	table, _, _ = strings.Cut(table, "<!-- end of figures -->")
	checks := []struct{ row, value, file, pattern string }{
		{
			"for an idle Rollout", "0", "test/counts/scaledobjects_test.go",
			`step\{name: "an idle resync", before: [^,]*, 0\), call: c\.reconcile\(ctx\)\}`,
		},
		{
			"for an idle Rollout", "0", "bench/internal/routerbench/report.go",
			`limit\("(?:writes|reads) of an idle resync", idle\.\w+, 0, false\)`,
		},
		{
			"for a new weight", "1 write", "test/counts/scaledobjects_test.go",
			`"SetWeight, another weight", call: c\.setWeight\(20\), want: requests\{patchObject: 1\}`,
		},
		{
			"for a new weight", "no read", "bench/internal/routerbench/report.go",
			`limit\("reads of a SetWeight", changed\.Reads, 0, false\)`,
		},
		{
			"for an idle Rollout", "0", "test/counts/routes_test.go",
			`step\{name: "an idle resync", before: accept\(ctx\), call: promoted\.reconcile\(ctx\)\}`,
		},
		{
			"for a new weight", "1 write of each object", "test/counts/routes_test.go",
			`"SetWeight, another weight", call: first\.setWeight\(20\), want: requests\{putRoute: routesPerRollout\}`,
		},
		{"calls a second", "0.85 ×", "docs/dev/benchmarks.md", `at least 0\.85 × the bare write`},
		{"two canaries", "0 of 28 347", "docs/pictures/demo.txt", `✔ no request failed: 0 of 28 347`},
		{"two canaries", "250 requests/s", "docs/pictures/demo.txt", `The load runs: 250 requests/s`},
		{
			"replicas go from 2 to 11", "0 of 4 069", "docs/pictures/demo.txt",
			`✔ no request of the app that scales failed: 0 of 4 069`,
		},
		{
			"replicas go from 2 to 11", "from 2 to 11", "docs/pictures/demo.txt",
			`2 stable and 0 canary[^$]*9 stable and 2 canary[^$]*2 stable and 0 canary`,
		},
	}
	for _, c := range checks {
		var row string
		for line := range strings.Lines(table) {
			if strings.Contains(line, c.row) {
				row = line
			}
		}
		if !strings.Contains(row, c.value) {
			t.Errorf("README's row %q does not contain %q: %s", c.row, c.value, row)
		}
		if !regexp.MustCompile(c.pattern).MatchString(text(t, c.file)) {
			t.Errorf("%s does not verify %q of the row %q: no match of %s", c.file, c.value, c.row, c.pattern)
		}
	}
}
