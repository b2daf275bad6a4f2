package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planes are the folders of the programs, each with the commands that are built from it.
func planes() map[string][]string {
	return map[string][]string{
		"agent":        {"agent"},
		"cli":          {"kubectl-http_canary"},
		"controlplane": {"interceptor"},
		"router":       {"gatewayapi-plugin", "rollouts-plugin-kedify"},
		"scaler":       {"scaler"},
	}
}

// shared are the folders that planes may import.
func shared() []string { return []string{"kube", "model", "server", "trigger"} }

// exceptions are the packages of another plane that a plane imports nevertheless.
func exceptions() map[string][]string {
	return map[string][]string{
		// The CLI reads a Rollout as the routers do, restores Ingresses as the agent does, and reads the agent's proxies.
		"cli": {"router", "router/...", "agent/autowire", "agent/proxies", "agent/apis"},
		// demandclient adds up the reports of the control plane.
		"scaler": {"controlplane/metrics"},
	}
}

// places are the entries of this folder.
func places() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(planes())), shared())))
}

// TestAPlaneImportsNoOtherPlane covers the non-test files of the planes, of their commands, and of the shared folders.
// .golangci.yml has the rules inside of a plane, and those about libraries.
func TestAPlaneImportsNoOtherPlane(t *testing.T) {
	t.Parallel()
	checked := 0
	check := func(plane, folder string) {
		for path, imported := range importsBelow(t, folder) {
			for _, name := range imported {
				checked++
				if other, _, _ := strings.Cut(name, "/"); planes()[other] == nil || other == plane || isException(plane, name) {
					continue
				}
				t.Errorf("%s imports internal/%s: a plane imports no other plane, and shared packages import none: move what both "+
					"need to one of %v", path, name, shared())
			}
		}
	}
	for plane, commands := range planes() {
		check(plane, plane)
		for _, command := range commands {
			check(plane, filepath.Join("..", "cmd", command))
		}
	}
	for _, folder := range shared() {
		check("", folder)
	}
	if checked < 100 {
		t.Errorf("only %d imports were checked", checked)
	}
}

// isException reports whether a plane may import a package of another plane.
func isException(plane, name string) bool {
	return slices.ContainsFunc(exceptions()[plane], func(pattern string) bool {
		folder, isTree := strings.CutSuffix(pattern, "...")
		return pattern == name || isTree && strings.HasPrefix(name, folder)
	})
}

// importsBelow returns the imported packages below internal/, without that prefix, by file.
func importsBelow(t *testing.T, folder string) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if _, name, isInternal := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/internal/"); isInternal {
				imports[path] = append(imports[path], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
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
	if want := places(); !slices.Equal(folders, want) {
		t.Errorf("internal/ has %v\nwant %v: a package goes below the plane that uses it, or below one of the shared folders",
			folders, want)
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
