package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
)

// rule is what a finding is against.
type rule string

const (
	elapsed rule = "elapsed"
	limit   rule = "limit"
	sleep   rule = "sleep"
	lower   rule = "lower"
	// comment is about a comment that permits nothing, or gives no reason.
	comment rule = "comment"
)

// finding is something against a rule.
type finding struct {
	at   token.Position
	rule rule
	text string
}

// String is a line for the output.
func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.at.Filename, f.at.Line, f.rule, f.text)
}

// judgement collects the findings in a unit.
type judgement struct {
	*flow
	findings map[finding]bool
	// receives are where the channel of a variable is received from.
	receives map[node][]*ast.UnaryExpr
	// sinks are the parameters and the fields that limit a wait.
	sinks map[node]bool
}

// judge returns what is against the rules in a checkout, in the order of the files.
func judge(checkout fs.FS) (all []finding, err error) {
	t, err := newTree(checkout)
	if err != nil {
		return nil, err
	}
	folders, err := t.folders()
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		u, err := t.load(folder)
		if err != nil {
			return nil, err
		}
		all = append(all, u.judge()...)
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line),
			cmp.Compare(a.rule, b.rule), cmp.Compare(a.text, b.text))
	})
	return all, nil
}

// judge returns what is against the rules in a unit, in no order.
func (u *unit) judge() []finding {
	j := &judgement{
		flow: newFlow(u), findings: map[finding]bool{}, receives: map[node][]*ast.UnaryExpr{}, sinks: map[node]bool{},
	}
	for _, file := range u.files {
		ast.Inspect(file, j.addReceive)
	}
	for _, file := range u.files {
		ast.Inspect(file, func(n ast.Node) bool {
			j.judgeLimit(n)
			j.judgeElapsed(n)
			return true
		})
	}
	j.judgeFields()
	return j.permitted()
}

// report notes a finding, unless the clock is fake there.
func (j *judgement) report(n ast.Node, against rule, format string, args ...any) {
	if !j.isFaked(n) {
		at := j.fset.Position(n.Pos())
		at.Column, at.Offset = 0, 0 // one finding per line and text
		j.findings[finding{at, against, fmt.Sprintf(format, args...)}] = true
	}
}
