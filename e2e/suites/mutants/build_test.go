package mutants

import (
	"crypto/sha256"
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

// buildsVariable names the folder that the programs are built in. What is there and up to date is not linked again: go
// build finds that out itself.
const buildsVariable = "MUTANTS_BUILDS"

// builds is that folder; one that goes with the test where none is named.
func builds(t *testing.T) string {
	t.Helper()
	if named := os.Getenv(buildsVariable); named != "" {
		return named
	}
	return t.TempDir()
}

// build builds the interceptor from the working tree with these edits, as a file of that name. The tree stays as it is.
func build(t *testing.T, repo, binary string, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	overlay := filepath.Join(dir, "overlay.json")
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

// Every mutant's edits have their lines, and make a program: `make suites` looks before a cluster is there.
func TestEditsMakePrograms(t *testing.T) {
	runs := plan(t)
	if len(runs) != len(mutants())+2 {
		t.Errorf("%d runs are planned for %d mutants", len(runs), len(mutants()))
	}
	programs := map[string]string{}
	for _, r := range runs[:len(runs)-1] {
		text, err := os.ReadFile(r.binary)
		if err != nil {
			t.Fatal(err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(text))
		if other, is := programs[sum]; is {
			t.Errorf("%s is the same program as %s", r.name, other)
		}
		programs[sum] = r.name
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
