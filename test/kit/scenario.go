package kit

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Scenarios is a folder of golden scenarios. Each is a folder with the files that a test reads, and the files that it
// must produce again byte by byte.
type Scenarios struct {
	// Dir is the folder, relative to the test's package.
	Dir string
	// Update writes the results of the test instead of comparing them, and removes files that the test neither reads
	// nor produces. A test binary sets it by its own flag, by convention -update.
	Update bool
}

// Scenario is one folder of Scenarios during a test.
type Scenario struct {
	// Name is the folder's name.
	Name string

	dir     string
	update  bool
	touched map[string]bool
}

// Run runs test as a parallel subtest for each folder. It fails the test if there is no folder, if a folder has no
// file, or if test does not use one of the files.
func (s Scenarios) Run(t *testing.T, test func(t *testing.T, scenario *Scenario)) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatalf("scenarios: %v", err)
	}
	entries = slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return !entry.IsDir() })
	if len(entries) == 0 {
		t.Fatalf("no scenario in %s", s.Dir)
	}
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			scenario := &Scenario{
				Name: entry.Name(), dir: filepath.Join(s.Dir, entry.Name()), update: s.Update, touched: map[string]bool{},
			}
			test(t, scenario)
			if !t.Failed() {
				scenario.checkOrphans(t)
			}
		})
	}
}

// Input returns the content of a required file.
func (s *Scenario) Input(tb testing.TB, name string) []byte {
	tb.Helper()
	content, ok := s.OptionalInput(tb, name)
	if !ok {
		tb.Fatalf("scenario %s: no file %s: write one", s.Name, name)
	}
	return content
}

// OptionalInput returns the content of a file, and false if the file does not exist.
func (s *Scenario) OptionalInput(tb testing.TB, name string) ([]byte, bool) {
	tb.Helper()
	s.touched[name] = true
	content, err := os.ReadFile(filepath.Join(s.dir, name)) //nolint:gosec // The path is made of names in the repository.
	if os.IsNotExist(err) {
		return nil, false
	}
	if err != nil {
		tb.Fatalf("scenario %s: %v", s.Name, err)
	}
	return content, true
}

// Golden fails the test unless the file contains got. With Scenarios.Update it writes the file.
func (s *Scenario) Golden(tb testing.TB, name string, got []byte) {
	tb.Helper()
	s.touched[name] = true
	path := filepath.Join(s.dir, name)
	if s.update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			tb.Fatalf("scenario %s: %v", s.Name, err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // The path is made of names in the repository.
	if err != nil {
		tb.Errorf("scenario %s: %v: run the test with -update and review the file", s.Name, err)
		return
	}
	if !bytes.Equal(want, got) {
		tb.Errorf("scenario %s: %s differs (-want +got); if the difference is intended, run the test with -update:\n%s",
			s.Name, name, cmp.Diff(string(want), string(got)))
	}
}

// checkOrphans reports files that the test does not use. With Scenarios.Update it removes them.
func (s *Scenario) checkOrphans(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatalf("scenario %s: %v", s.Name, err)
	}
	for _, entry := range entries {
		switch {
		case s.touched[entry.Name()]:
		case s.update:
			if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
				t.Errorf("scenario %s: %v", s.Name, err)
			}
		default:
			t.Errorf("scenario %s: %s is unused, the test uses %v: remove it or run with -update",
				s.Name, entry.Name(), slices.Sorted(maps.Keys(s.touched)))
		}
	}
}
