package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// finding is a violation of a rule: elapsed, limit or sleep, or comment for a comment that permits nothing.
type finding struct {
	file       string
	line       int
	rule, text string
}

// inspect returns the violations of the rules, in the order of the files.
func (p *program) inspect() []finding {
	p.index()
	for _, file := range p.files {
		for n := range ast.Preorder(file) {
			p.inspectLimit(n)
			p.inspectElapsed(n)
		}
	}
	for _, file := range p.files {
		for _, group := range file.Comments {
			for _, each := range group.List {
				p.permit(each)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(p.findings), func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line),
			cmp.Compare(a.rule, b.rule), cmp.Compare(a.text, b.text))
	})
}

// report adds a finding, unless the clock is fake there.
func (p *program) report(n ast.Node, rule, format string, args ...any) {
	if at := p.at(n.Pos()); p.isReal(n) {
		p.findings[finding{at.Filename, at.Line, rule, fmt.Sprintf(format, args...)}] = true
	}
}

// permit removes the findings that a comment permits, on its line or else on the next one, and adds those about it.
func (p *program) permit(by *ast.Comment) {
	reason, ok := strings.CutPrefix(by.Text, "//testbounds:allow")
	if !ok {
		return
	}
	at, before := p.at(by.Pos()), len(p.findings)
	for line := at.Line; line <= at.Line+1 && len(p.findings) == before; line++ {
		maps.DeleteFunc(p.findings, func(f finding, _ bool) bool {
			return f.file == at.Filename && f.line == line && f.rule != "comment"
		})
	}
	text := "testbounds:allow permits nothing here: remove it"
	if strings.TrimSpace(reason) == "" {
		text = "testbounds:allow needs a reason"
	} else if len(p.findings) < before {
		return
	}
	p.findings[finding{at.Filename, at.Line, "comment", text}] = true
}
