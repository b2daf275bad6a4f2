package mutants

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// interceptor is the program that faults are made in.
const interceptor = "interceptor"

// edit is a change of one piece of a source file.
type edit struct {
	// file is its path in the repository.
	file string
	// right is there once; wrong takes its place.
	right, wrong string
}

// build builds the interceptor from the working tree with these edits. The tree
// stays as it is.
func build(t *testing.T, repo string, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, interceptor)
	files, err := edited(repo, edits)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for i, source := range slices.Sorted(maps.Keys(files)) {
		replace[source] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		write(t, replace[source], []byte(files[source]))
	}
	plan, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, plan)
	// The flags are those of the cluster's own programs, whose compiled packages are
	// there already.
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w",
		"-overlay", overlay, "-o", binary, "./cmd/"+interceptor)
	command.Dir = repo
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the interceptor: %v\n%s", err, out)
	}
	return binary
}

// edited returns the texts of the files that edits change, by their paths.
func edited(repo string, edits []edit) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(repo, filepath.FromSlash(e.file))
		text, known := files[path]
		if !known {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("the source of a mutant: %w", err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.right); n != 1 {
			return nil, fmt.Errorf("%s has what this mutant changes %d times, not once; make the mutant anew: %q", e.file, n, e.right)
		}
		files[path] = strings.Replace(text, e.right, e.wrong, 1)
	}
	return files, nil
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every mutant's edits have their lines: `make suites` looks before a cluster is there.
func TestEditsHaveTheirLines(t *testing.T) {
	repo, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants() {
		if files, err := edited(repo, m.edits); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", m.name, len(files), err)
		}
	}
}

// A mutant whose source has changed is no mutant any more, and says so.
func TestAnEditNeedsItsLine(t *testing.T) {
	repo := t.TempDir()
	write(t, filepath.Join(repo, "a.go"), []byte("one\ntwo\nno, two\n"))
	for _, e := range []edit{{"a.go", "three", "x"}, {"a.go", "two", "x"}, {"b.go", "one", "x"}} {
		if files, err := edited(repo, []edit{e}); err == nil {
			t.Errorf("%+v: %v, want an error", e, files)
		}
	}
	files, err := edited(repo, []edit{{"a.go", "one", "1"}, {"a.go", "1\ntwo", "1\n2"}})
	if got := files[filepath.Join(repo, "a.go")]; err != nil || got != "1\n2\nno, two\n" {
		t.Errorf("edited %q, %v", got, err)
	}
}
