package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"strings"
)

// tree is a checkout whose packages are type-checked as far as its own sources allow: packages of other modules are
// empty, which makes their types invalid and stops nothing.
type tree struct {
	fs.FS
	module   string
	fset     *token.FileSet
	imported map[string]*types.Package
}

// unit is the package of a folder with its tests, external ones included.
type unit struct {
	*tree
	// files are the files that are judged.
	files   []*ast.File
	info    *types.Info
	parents map[ast.Node]ast.Node
}

// newTree returns the checkout of a main module.
func newTree(checkout fs.FS) (*tree, error) {
	text, err := fs.ReadFile(checkout, "go.mod")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if module, found := strings.CutPrefix(strings.TrimSpace(line), "module "); found {
			imported := map[string]*types.Package{}
			return &tree{FS: checkout, module: module, fset: token.NewFileSet(), imported: imported}, nil
		}
	}
	return nil, errors.New("go.mod: no module line")
}

// folders returns the folders whose tests gate a landing.
func (t *tree) folders() (folders []string, err error) {
	err = fs.WalkDir(t, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		_, nested := fs.Stat(t, path.Join(name, "go.mod"))
		base := path.Base(name)
		switch {
		case name == ".", name == "localcluster":
		case name == "bench", base == "testdata", nested == nil, strings.HasPrefix(base, "."), base[0] == '_':
			return fs.SkipDir
		}
		folders = append(folders, name)
		return nil
	})
	return folders, err
}

// isJudged returns whether a file holds tests, or helpers of tests.
func isJudged(name string) bool {
	if strings.HasSuffix(name, "_test.go") {
		return true
	}
	within := func(folders ...string) bool {
		for _, folder := range folders {
			if strings.HasPrefix(name, folder+"/") {
				return true
			}
		}
		return false
	}
	return within("internal/testkit", "internal/router/routertest", "test", "localcluster/test", "e2e") &&
		!within("test/kit/await", "e2e/await", "e2e/cmd")
}

// load returns the unit of a folder. It has no files if nothing in the folder is judged.
func (t *tree) load(folder string) (*unit, error) {
	files, err := t.parse(folder, true)
	if err != nil {
		return nil, err
	}
	u := &unit{tree: t, parents: map[ast.Node]ast.Node{}, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
	}}
	var inside, outside []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file.Name.Name, "_test") {
			outside = append(outside, file)
		} else {
			inside = append(inside, file)
		}
		if isJudged(t.fset.Position(file.Package).Filename) {
			u.files = append(u.files, file)
			u.addParents(file)
		}
	}
	if len(u.files) == 0 {
		return u, nil
	}
	name := path.Join(t.module, folder)
	tested := t.check(name, inside, u.info, importer(t.Import))
	t.check(name+"_test", outside, u.info, func(wanted string) (*types.Package, error) {
		if wanted == name {
			return tested, nil
		}
		return t.Import(wanted)
	})
	return u, nil
}

// addParents notes the parent of each node of a file.
func (u *unit) addParents(file *ast.File) {
	var stack []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			u.parents[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
}

// parse reads the Go files of a folder. Functions of files that are not judged have no bodies.
func (t *tree) parse(folder string, tests bool) (files []*ast.File, err error) {
	names, err := fs.Glob(t, path.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !tests && strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(t, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if !isBuilt(file) {
			continue
		}
		if !tests || !isJudged(name) {
			stripBodies(file)
		}
		files = append(files, file)
	}
	return files, nil
}

// stripBodies removes the bodies of functions, which saves most of the time of a type check.
func stripBodies(file *ast.File) {
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}

// isBuilt returns whether some build of a gating test contains a file. Tags that it does not know may be set or not.
func isBuilt(file *ast.File) bool {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, line := range group.List {
			expression, err := constraint.Parse(line.Text)
			if err == nil && !expression.Eval(tag(true)) && !expression.Eval(tag(false)) {
				return false
			}
		}
	}
	return true
}

// tag returns whether a build tag is set; other is the answer for tags that the tests of a landing may set.
func tag(other bool) func(string) bool {
	return func(name string) bool {
		switch name {
		case "timing", "race", "ignore", "windows", "darwin":
			return false
		case "linux", "unix", "amd64":
			return true
		default:
			return other
		}
	}
}

// importer is a function that imports packages.
type importer func(name string) (*types.Package, error)

// Import implements types.Importer.
func (i importer) Import(name string) (*types.Package, error) { return i(name) }

// Import returns the declarations of a package of the checkout, and next to nothing of others.
func (t *tree) Import(name string) (*types.Package, error) {
	if name == "unsafe" {
		return types.Unsafe, nil
	}
	if known := t.imported[name]; known != nil {
		return known, nil
	}
	t.imported[name] = unknown(name) // for cycles, which broken sources may have
	var files []*ast.File
	folder, isOurs := strings.CutPrefix(name, t.module+"/")
	switch {
	case isOurs:
		var err error
		if files, err = t.parse(folder, false); err != nil {
			return nil, err
		}
	case stub(name) != "":
		file, err := parser.ParseFile(t.fset, name+".go", stub(name), parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("stub of %s: %w", name, err)
		}
		files = append(files, file)
	}
	if len(files) > 0 {
		t.imported[name] = t.check(name, files, nil, t.Import)
	}
	return t.imported[name], nil
}

// check type-checks a package. What it does not understand has invalid types.
func (t *tree) check(name string, files []*ast.File, info *types.Info, imports importer) *types.Package {
	config := types.Config{Importer: imports, FakeImportC: true, DisableUnusedImportCheck: true, Error: func(error) {}}
	checked, _ := config.Check(name, t.fset, files, info) // most packages lack parts of other modules
	return checked
}

// unknown returns an empty package. Its name is the usual one for its path.
func unknown(name string) *types.Package {
	base := path.Base(name)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(name))
	}
	empty := types.NewPackage(name, base)
	empty.MarkComplete()
	return empty
}
