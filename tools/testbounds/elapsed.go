package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// isElapsed reports whether a value is an elapsed time.
func (p *program) isElapsed(e ast.Expr) bool {
	return slices.ContainsFunc(p.origins(e), func(origin ast.Expr) bool {
		name := p.called(origin)
		return name == "time.Since" || name == "(time.Time).Sub"
	})
}

// inspectElapsed reports comparisons of an elapsed time, such as time.Since(began) > limit or
// time.Now().After(began.Add(limit)).
func (p *program) inspectElapsed(n ast.Node) {
	directions := map[string]int{">": 1, ">=": 1, "<": -1, "<=": -1, "(time.Time).After": 1, "(time.Time).Before": -1}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		direction := directions[n.Op.String()]
		if direction != 0 && p.isElapsed(n.X) {
			p.compare(n, direction, n.Y)
		} else if direction != 0 && p.isElapsed(n.Y) {
			p.compare(n, -direction, n.X)
		}
	case *ast.CallExpr:
		direction := directions[p.called(n)]
		if direction == 0 {
			return
		}
		for _, added := range p.added(n.Args[0]) {
			p.compare(n, direction, added)
		}
		for _, added := range p.added(receiver(n)) {
			p.compare(n, -direction, added)
		}
	}
}

// compare reports an expression that is true if an elapsed time is greater than a limit, or less if direction is -1.
func (p *program) compare(e ast.Expr, direction int, with ast.Expr) {
	value := p.info.Types[with].Value
	isZero := value != nil && constant.Sign(value) == 0
	if !isZero && !p.isLong(with) && direction*p.meaning(e) == 1 && !p.isElapsed(with) {
		p.report(e, "elapsed", "the test fails when it takes %s or more", types.ExprString(with))
	}
}

// isLong reports whether a limit is as long as the patience of tests, as far as it is known.
func (p *program) isLong(e ast.Expr) (isLong bool) {
	for _, origin := range p.origins(e) {
		length := p.length(origin)
		if 0 < length && length < patience {
			return false
		}
		isLong = isLong || length != 0
	}
	return isLong
}

// meaning returns 1 if the test fails when an expression is true, -1 if it fails when that is false, and 0 if neither.
func (p *program) meaning(e ast.Expr) int {
	switch parent := p.parents[e].(type) {
	case *ast.ParenExpr:
		return p.meaning(parent)
	case *ast.UnaryExpr:
		return -p.meaning(parent)
	case *ast.BinaryExpr:
		if parent.Op == token.LAND || parent.Op == token.LOR {
			return p.meaning(parent)
		}
		return 0
	case *ast.IfStmt:
		if parent.Else != nil && p.fails(parent.Else) && !p.fails(parent.Body) {
			return -1
		}
		return p.outcome(parent.Body)
	case *ast.CaseClause:
		return p.outcome(parent)
	case *ast.ForStmt:
		if !leaves(parent) {
			return 0
		}
	case *ast.AssignStmt:
		for name, object := range p.info.Uses {
			if object.Pos() == parent.Lhs[0].Pos() && p.meaning(name) == 1 {
				return 1
			}
		}
	}
	return -1
}

// outcome returns 1 if a branch fails the test or ends a loop, and 0 otherwise.
func (p *program) outcome(branch ast.Node) int {
	if p.fails(branch) || leaves(branch) && p.isInLoop(branch) {
		return 1
	}
	return 0
}
