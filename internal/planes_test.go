package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// places are the entries of this folder: one for each plane, named after its program, and what planes share.
func places() []string {
	return []string{
		// Planes.
		"agent", "cli", "controlplane", "router", "scaler",
		// Shared by planes.
		"kube", "model", "server", "trigger",
	}
}

// TestEveryPackageHasAPlace keeps the tree readable: a path shows which program a file belongs to.
func TestEveryPackageHasAPlace(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, entry := range entries {
		switch {
		case entry.IsDir():
			folders = append(folders, entry.Name())
		case entry.Name() != "planes_test.go":
			t.Errorf("internal/%s is in no plane: move it to one of %v", entry.Name(), places())
		}
	}
	want := slices.Sorted(slices.Values(places()))
	if !slices.Equal(folders, want) {
		t.Errorf("internal/ has %v\nwant %v: a package goes below the plane that uses it, or below one of the shared folders", folders, want)
	}
}

// TestEveryPackageHasADocComment: the doc comment starts with "Package" and the package's name, as go doc expects.
func TestEveryPackageHasADocComment(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		hasDoc := file.Doc != nil && strings.HasPrefix(file.Doc.Text(), "Package "+file.Name.Name+" ")
		documented[folder] = documented[folder] || hasDoc
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(documented) < len(places()) {
		t.Fatalf("only %d packages were found", len(documented))
	}
	for folder, hasDoc := range documented {
		if !hasDoc {
			t.Errorf("internal/%s has no doc comment that starts with the package's name", filepath.ToSlash(folder))
		}
	}
}
