package build

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCopyTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		"crd/kustomization.yaml": "k", "crd/standard/httproutes.yaml": "h", "README.md": "r",
	} {
		writeFile(t, filepath.Join(from, path), content, 0o444)
	}
	for source, target := range map[string]string{"crd": "share", "README.md": "doc/README.md"} {
		if err := copyTree(filepath.Join(from, source), filepath.Join(to, target)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"share/kustomization.yaml": "k", "share/standard/httproutes.yaml": "h", "doc/README.md": "r"}
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Errorf("copies (-want +got):\n%s", diff)
	}
	if err := copyTree(filepath.Join(from, "charts"), to); err == nil {
		t.Error("copying a missing file returned no error")
	}
}

func TestPartKeepsWhatItsProgramsPrint(t *testing.T) {
	dest := t.TempDir()
	writeFile(t, filepath.Join(dest, "bin", "render"), "#!/bin/sh\n[ $1 = fail ] && exit 1\necho $1 && cat chart\n", 0o755)
	writeFile(t, filepath.Join(dest, "chart"), "of the part\n", 0o644)
	tools := GoTools{Prints: []Print{{Program: "render", Args: []string{"eg"}, Output: "share/install.yaml"}}}
	if err := tools.print(t.Context(), dest, io.Discard); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dest, "share", "install.yaml")); err != nil ||
		string(raw) != "eg\nof the part\n" {
		t.Errorf("the file contains %q, %v", raw, err)
	}
	tools.Prints[0].Args[0] = "fail"
	if err := tools.print(t.Context(), dest, io.Discard); err == nil {
		t.Error("a failing program returned no error")
	}
	tools.Prints[0].Args[0], tools.Temporary = "eg", []string{"render"}
	if err := tools.print(t.Context(), dest, io.Discard); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dest, "bin", "render")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary program is kept: %v", err)
	}
}

func TestProgramsHaveThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{"": "operator", "add-on-": "add-on-operator"} {
		folder := t.TempDir()
		writeFile(t, filepath.Join(folder, "operator"), "", 0o755)
		if err := (GoTools{Prefix: prefix}).addPrefix(folder); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, want)); err != nil {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// TestFingerprintsOfPartsThatPrintNothing guards the cache: a field that few components use must not change the
// fingerprints of all others.
func TestFingerprintsOfPartsThatPrintNothing(t *testing.T) {
	dir := t.TempDir()
	got, err := GoTools{Dir: dir, Output: "x"}.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Dir":"","Packages":null,"Output":"x","Tags":null,"Module":"","Copies":null}`
	if string(got) != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// contents returns the files below dir by path.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		below, _ := filepath.Rel(dir, path)
		out[below] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
