package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWarningEventsOfRoutersAreExplained: an Event of a router links to an anchor of the page that exists.
func TestWarningEventsOfRoutersAreExplained(t *testing.T) {
	explained := anchors(text(t, "docs/reference/findings.md"))
	reasons := regexp.MustCompile(`(?:\.Warn(?:Topic)?\(ctx, [\w.]+, |\bReason:\s+)"([A-Z]\w+)"`)
	tree, found := os.DirFS(filepath.Join(root, "internal/router")), 0
	err := fs.WalkDir(tree, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(tree, path)
		for _, match := range reasons.FindAllStringSubmatch(string(source), -1) {
			if found++; !explained[strings.ToLower(match[1])] {
				t.Errorf("internal/router/%s: docs/reference/findings.md has no row for the Warning Event %s", path, match[1])
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("found %d reasons, %v", found, err)
	}
}
