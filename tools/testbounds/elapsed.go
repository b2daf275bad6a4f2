package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// meaning is what follows when a condition is true.
type meaning struct {
	// fails means that the test fails, passes that it does if the condition is false, and ends that a loop ends.
	fails, passes, ends bool
}

func (m meaning) or(other meaning) meaning {
	return meaning{m.fails || other.fails, m.passes || other.passes, m.ends || other.ends}
}

// judgeElapsed reports comparisons of a time that the test measured.
func (j *judgement) judgeElapsed(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		left, right := j.comparedOf(n.X), j.comparedOf(n.Y)
		switch {
		case left != noClock && right == noClock:
			j.compare(n, left, n.Op, n.Y)
		case right != noClock && left == noClock:
			j.compare(n, right, mirror(n.Op), n.X)
		}
	case *ast.CallExpr:
		j.judgeTimes(n)
	}
}

// comparedOf returns where a difference of times comes from. Those that are made up are none.
func (j *judgement) comparedOf(e ast.Expr) clock {
	if j.info.Types[e].Value != nil {
		return noClock
	}
	from := j.elapsedOf(e)
	if from == fake {
		return noClock
	}
	return from
}

// judgeTimes reports comparisons of a time with a deadline, as in time.Now().After(began.Add(limit)).
func (j *judgement) judgeTimes(call *ast.CallExpr) {
	name := j.called(call)
	if name != ".After" && name != ".Before" || len(call.Args) != 1 || !j.isTime(receiver(call)) {
		return
	}
	from := join(j.timeOf(receiver(call)), j.timeOf(call.Args[0]))
	if from == fake {
		return
	}
	op := token.GTR
	if name == ".Before" {
		op = token.LSS
	}
	now, deadline := receiver(call), call.Args[0]
	added := j.added(deadline, true)
	if added == nil {
		now, deadline, op = deadline, now, mirror(op)
		added = j.added(deadline, true)
	}
	if added != nil && j.timeOf(now) != wall {
		from = unknownClock
	}
	if added != nil {
		j.compareAdded(call, from, op, added)
	}
}

// compareAdded reports the comparison of a time with one plus a duration, which is negative if the sides are swapped.
func (j *judgement) compareAdded(e ast.Expr, from clock, op token.Token, added ast.Expr) {
	if length, isKnown, _ := j.shortest(added, false); isKnown && length < 0 {
		op = mirror(op)
	}
	if negative, ok := ast.Unparen(added).(*ast.UnaryExpr); ok && negative.Op == token.SUB {
		op = mirror(op)
	}
	j.compare(e, from, op, added)
}

// compare reports an expression that compares an elapsed time with a limit.
func (j *judgement) compare(e ast.Expr, from clock, op token.Token, with ast.Expr) {
	length, isKnown, _ := j.shortest(with, false)
	if isKnown && length >= patience || j.isPatience(with, 0) || j.comparedOf(with) != noClock {
		return
	}
	is := j.meaning(e, false, 0)
	isGreater := op == token.GTR || op == token.GEQ
	isLess := op == token.LSS || op == token.LEQ
	isExact := j.isDirect(e) && (op == token.NEQ && is.fails || op == token.EQL && is.passes)
	switch {
	case isGreater && (is.fails || is.ends && from == wall), isLess && is.passes, isExact:
		j.report(e, elapsed, "the test fails when it takes %s", types.ExprString(with)+" or more")
	case from == wall && !j.isZero(with) && (isLess && is.fails || isGreater && is.passes):
		j.report(e, lower, "the test fails when it takes less than %s by its own clock", types.ExprString(with))
	}
}

// isDirect returns whether a comparison is of a time that was measured in the same function.
func (j *judgement) isDirect(e ast.Expr) bool {
	comparison, ok := e.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	for _, side := range []ast.Expr{comparison.X, comparison.Y} {
		measured := []ast.Expr{ast.Unparen(side)}
		if name, ok := measured[0].(*ast.Ident); ok {
			measured = slices.Collect(j.assigned(j.object(name)))
		}
		for _, each := range measured {
			call, ok := ast.Unparen(each).(*ast.CallExpr)
			if ok && j.function(call) == nil && j.elapsedOf(call) == wall {
				return true
			}
		}
	}
	return false
}

// isPatience returns whether a limit is the global patience.
func (j *judgement) isPatience(e ast.Expr, depth int) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := callee(n)
			is = is || name != nil && name.Name == "Patience"
		case *ast.Ident:
			if object, ok := j.object(n).(*types.Var); ok && depth < 3 {
				for value := range j.assigned(object) {
					is = is || j.isPatience(value, depth+1)
				}
			}
		}
		return !is
	})
	return is
}

// isZero returns whether an expression is the constant 0.
func (j *judgement) isZero(e ast.Expr) bool {
	value := j.info.Types[e].Value
	return value != nil && constant.Sign(value) == 0
}

// mirror returns the comparison whose sides are swapped.
func mirror(op token.Token) token.Token {
	switch op {
	case token.LSS:
		return token.GTR
	case token.LEQ:
		return token.GEQ
	case token.GTR:
		return token.LSS
	case token.GEQ:
		return token.LEQ
	default:
		return op
	}
}

// meaning returns what follows when an expression is true, or false if it is negated.
func (j *judgement) meaning(e ast.Expr, isNegated bool, depth int) (is meaning) {
	defer func() {
		if isNegated {
			is.fails, is.passes = is.passes, is.fails
		}
	}()
	switch parent := j.parents[e].(type) {
	case *ast.ParenExpr:
		return j.meaning(parent, false, depth)
	case *ast.UnaryExpr:
		return j.meaning(parent, parent.Op == token.NOT, depth)
	case *ast.BinaryExpr:
		if parent.Op != token.LAND && parent.Op != token.LOR {
			return meaning{}
		}
		return j.meaning(parent, false, depth)
	case *ast.IfStmt:
		return j.branch(parent)
	case *ast.CaseClause:
		return meaning{fails: j.fails(parent.Body)}
	case *ast.ForStmt:
		return meaning{passes: leaves(parent.Body.List)}
	case *ast.ReturnStmt:
		return j.returned(parent, depth)
	case *ast.AssignStmt, *ast.ValueSpec:
		return j.used(j.assignee(e), depth)
	case *ast.CallExpr:
		return meaning{passes: !j.isLogged(parent)}
	default:
		return meaning{passes: true}
	}
}

// branch returns what follows when the condition of an if statement is true.
func (j *judgement) branch(statement *ast.IfStmt) meaning {
	switch {
	case j.fails(statement.Body.List):
		return meaning{fails: true}
	case statement.Else != nil && j.fails([]ast.Stmt{statement.Else}):
		return meaning{passes: true}
	case leaves(statement.Body.List):
		return meaning{ends: j.isInLoop(statement), passes: j.fails(j.next(statement))}
	}
	return meaning{}
}

// next returns the statement after another one if it is a call.
func (j *judgement) next(statement ast.Stmt) []ast.Stmt {
	block, ok := j.parents[statement].(*ast.BlockStmt)
	if !ok {
		return nil
	}
	for i, each := range block.List[:len(block.List)-1] {
		if call, ok := block.List[i+1].(*ast.ExprStmt); ok && each == statement {
			return []ast.Stmt{call}
		}
	}
	return nil
}

// returned returns what follows when a function returns true. For a function literal that is that a condition holds.
func (j *judgement) returned(statement *ast.ReturnStmt, depth int) meaning {
	declaration, ok := j.enclosing(statement).(*ast.FuncDecl)
	if !ok {
		return meaning{passes: true}
	}
	return j.used(j.info.Defs[declaration.Name], depth)
}

// used returns what follows when a variable is true, or the result of a function.
func (j *judgement) used(target node, depth int) (all meaning) {
	object, ok := target.(types.Object)
	if !ok || depth > 3 {
		return meaning{passes: true}
	}
	if len(j.uses[object]) == 0 {
		return meaning{passes: true}
	}
	for _, name := range j.uses[object] {
		var e ast.Expr = name
		if selector, ok := j.parents[e].(*ast.SelectorExpr); ok {
			e = selector
		}
		if call, ok := j.parents[e].(*ast.CallExpr); ok && call.Fun == e {
			e = call
		}
		all = all.or(j.meaning(e, false, depth+1))
	}
	return all
}

// isLogged returns whether a call only prints its arguments.
func (j *judgement) isLogged(call *ast.CallExpr) bool {
	switch j.called(call) {
	case ".Log", ".Logf", ".Errorf", ".Error", ".Fatalf", ".Fatal",
		"fmt.Sprintf", "fmt.Printf", "fmt.Println", "fmt.Fprintf":
		return true
	default:
		return false
	}
}
