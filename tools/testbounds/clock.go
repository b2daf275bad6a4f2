package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// clock is where a time comes from.
type clock int

const (
	// noClock means that an expression is no time, and no difference of times.
	noClock clock = iota
	// fake is a time that the test made up.
	fake
	// unknownClock is a time that somebody else measured.
	unknownClock
	// wall is a time that the test read from the clock of the machine.
	wall
)

// clocks finds where times come from.
type clocks struct {
	*flow
	found map[question]clock
}

// question is what is asked of a node: where it comes from as a time, or as a difference of times.
type question struct {
	node      node
	isElapsed bool
}

// timeOf returns where a time comes from.
func (f *flow) timeOf(e ast.Expr) clock {
	return clocks{f, map[question]clock{}}.time(e)
}

// elapsedOf returns where a difference of times comes from, noClock if an expression is none.
func (f *flow) elapsedOf(e ast.Expr) clock {
	return clocks{f, map[question]clock{}}.elapsed(e)
}

// join combines the clocks of what a node may be: one read from the machine's clock wins, then one that is made up.
func join(a, b clock) clock {
	if a == wall || b == wall {
		return wall
	}
	if a == fake || b == fake {
		return fake
	}
	return max(a, b)
}

// node joins the clocks of what is assigned to a node.
func (c clocks) node(of node, isElapsed bool) (all clock) {
	asked := question{of, isElapsed}
	if known, ok := c.found[asked]; ok {
		return known
	}
	c.found[asked] = noClock // for values that depend on themselves
	for value := range c.assigned(of) {
		if isElapsed {
			all = join(all, c.elapsed(value))
		} else {
			all = join(all, c.time(value))
		}
	}
	c.found[asked] = all
	return all
}

// name joins the clocks of what is assigned to a variable.
func (c clocks) name(name *ast.Ident, isElapsed bool) clock {
	if object, ok := c.object(name).(*types.Var); ok {
		return c.node(object, isElapsed)
	}
	return noClock
}

// time returns where a time comes from, unknownClock if nothing tells.
func (c clocks) time(e ast.Expr) clock {
	found := noClock
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		found = c.name(e, false)
	case *ast.SelectorExpr:
		found = c.name(e.Sel, false)
	case *ast.IndexExpr:
		return c.time(e.X)
	case *ast.UnaryExpr:
		return c.time(e.X)
	case *ast.StarExpr:
		return c.time(e.X)
	case *ast.CompositeLit:
		if c.qualified(e.Type) == "time.Time" {
			return fake
		}
		for _, origin := range c.elements(e) {
			found = join(found, c.node(origin.node, false))
		}
	case *ast.CallExpr:
		found = c.calledTime(e)
	}
	if found == noClock {
		return unknownClock
	}
	return found
}

// calledTime returns where the time that a call returns comes from.
func (c clocks) calledTime(call *ast.CallExpr) clock {
	if function := c.function(call); function != nil {
		return c.node(result{function, 0}, false)
	}
	switch c.called(call) {
	case "time.Now":
		return wall
	case "time.Date", "time.Unix", "time.UnixMilli":
		return fake
	case ".Add", ".Round", ".Truncate", ".UTC", ".Local", ".AddDate":
		return c.time(receiver(call))
	case "append":
		found := noClock
		for _, argument := range call.Args {
			found = join(found, c.time(argument))
		}
		return found
	}
	return noClock
}

// elapsed returns where a difference of times comes from.
func (c clocks) elapsed(e ast.Expr) clock {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.name(e, true)
	case *ast.SelectorExpr:
		return c.name(e.Sel, true)
	case *ast.IndexExpr:
		return c.elapsed(e.X)
	case *ast.UnaryExpr:
		return c.elapsed(e.X)
	case *ast.BinaryExpr:
		return c.calculated(e)
	case *ast.CompositeLit:
		found := noClock
		if _, isStruct := under(c.info.TypeOf(e)).(*types.Struct); !isStruct {
			for _, element := range e.Elts {
				found = join(found, c.elapsed(element))
			}
		}
		return found
	case *ast.CallExpr:
		return c.calledElapsed(e)
	}
	return noClock
}

// calculated returns where the result of a calculation comes from. A count times or by a time is a rate, and no time.
func (c clocks) calculated(e *ast.BinaryExpr) clock {
	left, right := c.elapsed(e.X), c.elapsed(e.Y)
	switch {
	case e.Op == token.ADD, e.Op == token.SUB:
		return join(left, right)
	case e.Op == token.MUL && c.info.Types[e.Y].Value != nil, e.Op == token.QUO && right == noClock:
		return left
	case e.Op == token.MUL && c.info.Types[e.X].Value != nil:
		return right
	}
	return noClock
}

// calledElapsed returns where the difference of times that a call returns comes from.
func (c clocks) calledElapsed(call *ast.CallExpr) clock {
	if function := c.function(call); function != nil {
		return c.node(result{function, 0}, true)
	}
	switch name := c.called(call); {
	case name == "time.Since":
		return wall
	case name == ".Sub" && len(call.Args) == 1 && c.isTime(receiver(call)):
		return join(c.time(receiver(call)), c.time(call.Args[0]))
	case name == ".Seconds", name == ".Milliseconds", name == ".Microseconds", name == ".Minutes",
		name == ".Round", name == ".Truncate", name == ".Abs", name == ".Nanoseconds":
		return c.elapsed(receiver(call))
	case c.isConversion(call), name == "append", name == "max", name == "min", name == "slices.Max",
		name == "slices.Min":
		found := noClock
		for _, argument := range call.Args {
			found = join(found, c.elapsed(argument))
		}
		return found
	}
	return noClock
}

// isTime returns whether an expression is a time, or something of another module that may be one.
func (u *unit) isTime(e ast.Expr) bool {
	of := u.info.TypeOf(e)
	if of == nil || of == types.Typ[types.Invalid] {
		return true
	}
	named, ok := types.Unalias(of).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Time"
}
