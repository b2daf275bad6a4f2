package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"iter"
	"strings"
	"time"
)

// assigned iterates over the expressions whose values a node may have.
func (f *flow) assigned(to node) iter.Seq[ast.Expr] {
	return func(yield func(ast.Expr) bool) {
		f.eachAssigned(to, map[node]bool{}, yield)
	}
}

func (f *flow) eachAssigned(to node, visited map[node]bool, yield func(ast.Expr) bool) bool {
	if visited[to] {
		return true
	}
	visited[to] = true
	for _, value := range f.values[to] {
		if !yield(value) {
			return false
		}
	}
	for _, from := range f.results[to] {
		if !f.eachAssigned(from, visited, yield) {
			return false
		}
	}
	return true
}

// lengths finds durations.
type lengths struct {
	*flow
	visited map[node]bool
	// isOpen means that the values of parameters and fields do not count: those that a duration depends on are params.
	isOpen bool
	params []*types.Var
}

// shortest returns the shortest duration that an expression can have as far as its constants are known. If it is open,
// the parameters and fields that it depends on have no value, and are returned.
func (f *flow) shortest(e ast.Expr, isOpen bool) (length time.Duration, isKnown bool, params []*types.Var) {
	l := lengths{flow: f, visited: map[node]bool{}, isOpen: isOpen}
	length, isKnown = l.of(e)
	return length, isKnown, l.params
}

// of returns the shortest duration of an expression.
func (l *lengths) of(e ast.Expr) (time.Duration, bool) {
	if value := l.info.Types[e].Value; value != nil {
		number, exact := constant.Int64Val(constant.ToInt(value))
		return time.Duration(number), exact
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return l.variable(e)
	case *ast.SelectorExpr:
		return l.variable(e.Sel)
	case *ast.BinaryExpr:
		return l.binary(e)
	case *ast.CallExpr:
		return l.call(e)
	case *ast.IndexExpr:
		return l.of(e.X)
	case *ast.CompositeLit:
		return l.least(e.Elts, false)
	case *ast.KeyValueExpr:
		return l.of(e.Value)
	}
	return 0, false
}

// variable returns the shortest duration that is assigned to a variable.
func (l *lengths) variable(name *ast.Ident) (time.Duration, bool) {
	object, ok := l.object(name).(*types.Var)
	if !ok {
		return 0, false
	}
	if l.isOpen && (l.flow.params[object] || object.IsField()) {
		if object.Type().String() == "time.Duration" {
			l.params = append(l.params, object)
		}
		return 0, false
	}
	return l.node(object)
}

// node returns the shortest duration that is assigned to a node.
func (l *lengths) node(of node) (time.Duration, bool) {
	if l.visited[of] {
		return 0, false
	}
	l.visited[of] = true
	var all []ast.Expr
	for value := range l.assigned(of) {
		all = append(all, value)
	}
	return l.least(all, false)
}

// least returns the shortest of durations: of those that are known, or none if one is not and all have to be.
func (l *lengths) least(all []ast.Expr, needsAll bool) (shortest time.Duration, isKnown bool) {
	for _, each := range all {
		length, ok := l.of(each)
		switch {
		case !ok && needsAll:
			return 0, false
		case ok && (!isKnown || length < shortest):
			shortest, isKnown = length, true
		}
	}
	return shortest, isKnown
}

// binary calculates. A sum of parameters depends on none of them alone.
func (l *lengths) binary(e *ast.BinaryExpr) (time.Duration, bool) {
	before := l.params
	left, isLeft := l.of(e.X)
	right, isRight := l.of(e.Y)
	if !isLeft && !isRight {
		l.params = before
	}
	if e.Op == token.ADD && isLeft != isRight && len(l.params) == len(before) {
		return left + right, true // what is not known, such as when something is due, adds nothing to the slack
	}
	if !isLeft || !isRight {
		return 0, false
	}
	switch {
	case e.Op == token.ADD:
		return left + right, true
	case e.Op == token.SUB:
		return left - right, true
	case e.Op == token.MUL:
		return time.Duration(int64(left) * int64(right)), true
	case e.Op == token.QUO && right != 0:
		return left / right, true
	}
	return 0, false
}

// call returns the shortest duration that a call returns.
func (l *lengths) call(e *ast.CallExpr) (time.Duration, bool) {
	if function := l.function(e); function != nil {
		return l.node(result{function, 0})
	}
	switch name := l.called(e); {
	case l.isConversion(e):
		return l.of(e.Args[0])
	case strings.HasSuffix(name, ".Patience"):
		return patience, true
	case name == "min", name == "cmp.Or":
		return l.least(e.Args, false)
	case name == "max":
		return l.most(e.Args)
	}
	return 0, false
}

// most returns the longest of durations, if all are known.
func (l *lengths) most(all []ast.Expr) (longest time.Duration, isKnown bool) {
	for _, each := range all {
		length, ok := l.of(each)
		if !ok {
			return 0, false
		}
		longest = max(longest, length)
	}
	return longest, true
}
