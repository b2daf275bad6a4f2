package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
)

// inspectReceive reports what waits for a timer: it is a limit if the test fails then, or a sleep. A pause between two
// looks is neither.
func (p *program) inspectReceive(receive *ast.UnaryExpr) {
	channel := receive.X
	if selector, ok := channel.(*ast.SelectorExpr); ok && selector.Sel.Name == "C" {
		channel = selector.X
	}
	clause, isCase := p.parents[p.parents[receive]].(*ast.CommClause)
	isCase = isCase && clause.Comm == p.parents[receive]
	isInLoop := isCase && p.isInLoop(clause)
	for _, origin := range p.origins(channel) {
		name := p.called(origin)
		switch {
		case name != "time.After" && name != "time.NewTimer":
		case isCase && (p.fails(clause) || isInLoop && leaves(clause)):
			p.limit(origin.(*ast.CallExpr).Args[0])
		case name == "time.After" && !isInLoop:
			p.report(origin, "sleep", "time.After waits for a fixed time")
		}
	}
}

// isInLoop reports whether a node is in a loop of its function.
func (p *program) isInLoop(n ast.Node) bool {
	for ; n != nil; n = p.parents[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit:
			return false
		}
	}
	return false
}

// contains reports whether some part of a statement is of a kind. Function literals in it are not visited.
func contains(statement ast.Node, is func(ast.Node) bool) (found bool) {
	ast.Inspect(statement, func(n ast.Node) bool {
		_, isFunction := n.(*ast.FuncLit)
		found = found || n != nil && is(n)
		return !found && !isFunction
	})
	return found
}

// leaves reports whether a statement leaves its loop.
func leaves(statement ast.Node) bool {
	return contains(statement, func(n ast.Node) bool {
		_, returns := n.(*ast.ReturnStmt)
		branch, ok := n.(*ast.BranchStmt)
		return returns || ok && branch.Tok == token.BREAK
	})
}

// failure matches parts of the names of functions that fail a test, or create a message for that.
var failure = regexp.MustCompile(`(?i)(fatal|fail|error|panic|broken|\.exit|errors\.join|sprint)\w*$`)

// fails reports whether a statement fails the test: by a call, a message, or a last result that is not nil or true.
func (p *program) fails(statement ast.Node) bool {
	good := []string{"nil", "true"}
	return contains(statement, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := p.called(n)
			return failure.MatchString(name) && name != "(error).Error"
		case *ast.ReturnStmt:
			return len(n.Results) > 0 && !slices.Contains(good, types.ExprString(n.Results[len(n.Results)-1]))
		}
		return false
	})
}
