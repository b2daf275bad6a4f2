package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// judgeTimer reports a timer that ends a wait, or that is a sleep. A pause between two looks is neither.
func (j *judgement) judgeTimer(call *ast.CallExpr, name string) {
	parent := j.parents[call]
	if isReceive(parent) {
		j.judgeReceive(call, parent.(*ast.UnaryExpr), name)
		return
	}
	target := j.assignee(call)
	receives := j.receives[target]
	if target == nil || len(receives) == 0 {
		j.limit(call.Args[0], name)
	}
	for _, receive := range receives {
		j.judgeReceive(call, receive, name)
	}
}

// assignee returns the variable that an expression is assigned to.
func (f *flow) assignee(e ast.Expr) node {
	switch parent := f.parents[e].(type) {
	case *ast.AssignStmt:
		for i, value := range parent.Rhs {
			if value == e && len(parent.Lhs) == len(parent.Rhs) {
				return f.target(parent.Lhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, value := range parent.Values {
			if value == e && i < len(parent.Names) {
				return f.target(parent.Names[i])
			}
		}
	}
	return nil
}

// judgeReceive reports what waits for a timer.
func (j *judgement) judgeReceive(timer *ast.CallExpr, receive *ast.UnaryExpr, name string) {
	clause := j.clause(receive)
	isInLoop := clause != nil && j.isInLoop(clause)
	switch {
	case clause == nil && name == "time.After":
		j.report(timer, sleep, "time.After waits for a fixed time")
	case clause == nil: // a pace
	case isInLoop && (leaves(clause.Body) || j.fails(clause.Body)), !isInLoop && j.fails(clause.Body):
		j.limit(timer.Args[0], name)
	case !isInLoop && name == "time.After":
		j.report(timer, sleep, "time.After waits for a fixed time")
	}
}

// clause returns the case of a select statement that an expression is what is waited for of.
func (u *unit) clause(e ast.Node) *ast.CommClause {
	for child := e; child != nil; child = u.parents[child] {
		if clause, ok := u.parents[child].(*ast.CommClause); ok {
			if clause.Comm == child {
				return clause
			}
			return nil
		}
	}
	return nil
}

// isInLoop returns whether a node is in a loop of its function.
func (u *unit) isInLoop(n ast.Node) bool {
	for ; n != nil; n = u.parents[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		}
	}
	return false
}

// leaves returns whether statements leave the loop that they are in.
func leaves(statements []ast.Stmt) (found bool) {
	for _, statement := range statements {
		inspect(statement, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.ReturnStmt:
				found = true
			case *ast.BranchStmt:
				isBreak := n.Tok == token.BREAK && (n.Label != nil || !isInBlock(statement, n))
				found = found || isBreak || n.Tok == token.GOTO
			}
		})
	}
	return found
}

// isInBlock returns whether a break is about something within a statement: a loop, or a switch.
func isInBlock(statement ast.Stmt, branch *ast.BranchStmt) (is bool) {
	inspect(statement, func(n ast.Node) {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			is = is || n.Pos() <= branch.Pos() && branch.End() <= n.End()
		}
	})
	return is
}

// inspect visits the nodes of a statement, without those of function literals.
func inspect(statement ast.Stmt, visit func(ast.Node)) {
	ast.Inspect(statement, func(n ast.Node) bool {
		if _, isFunction := n.(*ast.FuncLit); isFunction {
			return false
		}
		if n != nil {
			visit(n)
		}
		return true
	})
}

// fails returns whether statements fail the test: by a call, an error that is returned, or a message that is collected.
func (u *unit) fails(statements []ast.Stmt) (found bool) {
	for _, statement := range statements {
		inspect(statement, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.CallExpr:
				found = found || u.isFailure(n)
			case *ast.ReturnStmt:
				found = found || u.isFailed(n)
			}
		})
	}
	return found
}

// isFailure returns whether a call fails the test.
func (u *unit) isFailure(call *ast.CallExpr) bool {
	switch name := u.called(call); name {
	case "panic", "errors.Join", "os.Exit", ".Fatal", ".Fatalf", ".Errorf", ".FailNow", ".Fail":
		return true
	case ".Error":
		return len(call.Args) > 0
	case "append":
		return u.isMessage(call)
	default:
		name = strings.ToLower(name)
		return strings.Contains(name, "fail") || strings.HasSuffix(name, "invariant.broken")
	}
}

// isMessage returns whether an expression makes a text or an error.
func (u *unit) isMessage(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch u.called(call) {
			case "fmt.Sprintf", "fmt.Sprint", "fmt.Errorf", "errors.New":
				is = true
			}
		}
		return !is
	})
	return is
}

// isFailed returns whether a statement returns an error, a message or false.
func (u *unit) isFailed(statement *ast.ReturnStmt) bool {
	if len(statement.Results) == 0 {
		return false
	}
	last := ast.Unparen(statement.Results[len(statement.Results)-1])
	if name, ok := last.(*ast.Ident); ok && (name.Name == "nil" || name.Name == "true") {
		return false
	}
	var signature *ast.FuncType
	switch function := u.enclosing(statement).(type) {
	case *ast.FuncDecl:
		signature = function.Type
	case *ast.FuncLit:
		signature = function.Type
	}
	of := fields(signature.Results)
	switch types.ExprString(of[len(of)-1].Type) {
	case "error":
		return true
	case "bool":
		return types.ExprString(last) == "false"
	default:
		return u.isMessage(last)
	}
}
