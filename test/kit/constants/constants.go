// Package constants reads the string constants in the source of a package, so that a test can go over all of them.
package constants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Constant is a string constant with a literal as its value.
type Constant struct {
	// Name and Value are those of the constant, and Doc is its comment in one line.
	Name, Value, Doc string
	// Group is the comment of its block in one line, and File the name of its file.
	Group, File string
}

// Read returns the constants whose names begin with a prefix, in the Go files of folders except tests.
func Read(tb testing.TB, prefix string, folders ...string) []Constant {
	tb.Helper()
	var all []Constant
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			tb.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.ParseComments)
			if err != nil {
				tb.Fatal(err)
			}
			for _, constant := range ofFile(file) {
				if constant.File = name; strings.HasPrefix(constant.Name, prefix) {
					all = append(all, constant)
				}
			}
		}
	}
	if len(all) == 0 {
		tb.Fatalf("%q: no constant begins with %q", folders, prefix)
	}
	return all
}

// Values returns the values of constants.
func Values(all []Constant) []string {
	values := make([]string, 0, len(all))
	for _, constant := range all {
		values = append(values, constant.Value)
	}
	return values
}

// ofFile returns the string constants of a file.
func ofFile(file *ast.File) []Constant {
	var all []Constant
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			constant, ok := spec.(*ast.ValueSpec)
			if !ok || len(constant.Values) != 1 {
				continue
			}
			literal, ok := constant.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, _ := strconv.Unquote(literal.Value) // the parser accepts only literals that can be unquoted
			all = append(all, Constant{
				Name: constant.Names[0].Name, Value: value, Doc: line(constant.Doc), Group: line(block.Doc),
			})
		}
	}
	return all
}

// line returns a comment in one line.
func line(comment *ast.CommentGroup) string { return strings.Join(strings.Fields(comment.Text()), " ") }
