package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// program is the tests of a checkout and their helpers. An object is known by its position, which is the same in a
// package and in its variant with tests.
type program struct {
	root string
	fset *token.FileSet
	// files are those that are inspected, by their names within the checkout.
	files map[string]*ast.File
	info  types.Info
	// parents are the parents of nodes.
	parents map[ast.Node]ast.Node
	// values are what is assigned to variables, parameters and fields, and what functions return.
	values map[token.Pos][]ast.Expr
	// users are the functions that use an object, and starters are those that start bubbles.
	users    map[token.Pos][]*ast.FuncDecl
	starters map[*ast.FuncDecl]bool
	findings map[finding]bool
	// isFlag means that the node before was the flag --timeout without a value.
	isFlag bool
}

// newProgram returns the program of a checkout without files.
func newProgram(root string) *program {
	return &program{
		root: root, fset: token.NewFileSet(), files: map[string]*ast.File{}, parents: map[ast.Node]ast.Node{},
		info: types.Info{
			Types: map[ast.Expr]types.TypeAndValue{},
			Defs:  map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		},
		values: map[token.Pos][]ast.Expr{}, users: map[token.Pos][]*ast.FuncDecl{}, starters: map[*ast.FuncDecl]bool{},
		findings: map[finding]bool{},
	}
}

// load reads both modules of a checkout. The types of what they import come from the compiler's cache.
func load(root string) (*program, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	p := newProgram(root)
	return p, errors.Join(p.loadModule(root), p.loadModule(filepath.Join(root, "localcluster")))
}

// loadModule reads the packages of a module that are inspected.
func (p *program) loadModule(folder string) error {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: folder, Fset: p.fset, Tests: true}, "./...")
	if err != nil {
		return err
	}
	for _, one := range loaded {
		if len(one.Errors) > 0 {
			return fmt.Errorf("%s: %w", one.ID, one.Errors[0])
		}
		before := len(p.files)
		for _, file := range one.Syntax {
			if name := p.at(file.Package).Filename; isInspected(name) {
				p.files[name] = file
			}
		}
		if len(p.files) > before {
			maps.Copy(p.info.Types, one.TypesInfo.Types)
			maps.Copy(p.info.Defs, one.TypesInfo.Defs)
			maps.Copy(p.info.Uses, one.TypesInfo.Uses)
		}
	}
	return nil
}

// index records the parents of nodes, the values of objects, and their users.
func (p *program) index() {
	for _, file := range p.files {
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			if len(stack) > 0 {
				p.parents[n] = stack[len(stack)-1]
			}
			p.addValues(n)
			p.addUser(n, stack)
			return true
		})
	}
	for _, object := range p.info.Uses {
		if function, ok := object.(*types.Func); ok && function.FullName() == "testing/synctest.Test" {
			p.addStarters(function.Pos())
		}
	}
}

// at returns a position with the file's path relative to the checkout.
func (p *program) at(pos token.Pos) token.Position {
	at := p.fset.Position(pos)
	at.Filename = strings.TrimPrefix(at.Filename, p.root+"/")
	return at
}

// isInspected reports whether a file contains tests that gate a landing, or helpers of them. Package stall measures how
// long the machine made no progress, which only voids a verdict.
func isInspected(name string) bool {
	within := func(folder string) bool { return strings.HasPrefix(name, folder+"/") }
	helpers := []string{"test", "localcluster/test", "e2e"}
	isHelper := slices.ContainsFunc(helpers, within) && !within("e2e/cmd")
	return (isHelper || strings.HasSuffix(name, "_test.go")) && !within("bench") && !within("test/kit/stall")
}
