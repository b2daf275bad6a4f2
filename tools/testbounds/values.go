package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// addValues notes the values that a node assigns.
func (p *program) addValues(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			p.assign(to, p.part(n.Rhs, i, len(n.Lhs)))
		}
	case *ast.ValueSpec:
		for i := range min(len(n.Names), len(n.Names)*len(n.Values)) {
			p.assign(n.Names[i], p.part(n.Values, i, len(n.Names)))
		}
	case *ast.RangeStmt:
		p.assign(n.Value, n.X)
	case *ast.CompositeLit:
		of, isStruct := p.info.TypeOf(n).Underlying().(*types.Struct)
		for i, element := range n.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok && isStruct {
				p.assign(pair.Key, pair.Value)
			} else if isStruct {
				p.add(of.Field(i), element)
			}
		}
	case *ast.CallExpr:
		of, ok := p.info.TypeOf(n.Fun).Underlying().(*types.Signature)
		for i, argument := range n.Args {
			if ok && of.Params().Len() > 0 {
				p.add(of.Params().At(min(i, of.Params().Len()-1)), argument)
			}
		}
	case *ast.FuncDecl:
		if n.Body != nil {
			p.addResults(p.info.TypeOf(n.Name), n.Body)
		}
	case *ast.FuncLit:
		p.addResults(p.info.TypeOf(n), n.Body)
	}
}

// addResults notes what a function returns.
func (p *program) addResults(of types.Type, body *ast.BlockStmt) {
	results := of.(*types.Signature).Results()
	contains(body, func(n ast.Node) bool {
		if statement, ok := n.(*ast.ReturnStmt); ok && len(statement.Results) > 0 {
			for i := range results.Len() {
				p.add(results.At(i), p.part(statement.Results, i, results.Len()))
			}
		}
		return false
	})
}

// part returns one of some values of a list, or of the only call in it: then it is a name for the result.
func (p *program) part(list []ast.Expr, i, count int) ast.Expr {
	if len(list) == count {
		return list[i]
	}
	if results, ok := p.info.TypeOf(list[0]).(*types.Tuple); ok && results.At(i).Pos().IsValid() {
		name := ast.NewIdent("result")
		p.info.Uses[name] = results.At(i)
		return name
	}
	return list[0]
}

// assign notes that the target of an expression gets a value.
func (p *program) assign(to, from ast.Expr) {
	switch e := to.(type) {
	case *ast.IndexExpr:
		p.assign(e.X, from)
	case *ast.SelectorExpr:
		p.assign(e.Sel, from)
	case *ast.Ident:
		if object := p.info.ObjectOf(e); object != nil {
			p.add(object, from)
		}
	}
}

// add notes that an object gets a value.
func (p *program) add(to types.Object, from ast.Expr) {
	p.values[to.Pos()] = append(p.values[to.Pos()], from)
}

// called returns the full name of the function that an expression calls, such as "(time.Time).Sub".
func (p *program) called(e ast.Expr) string {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		switch function := typeutil.Callee(&p.info, call).(type) {
		case *types.Func:
			return function.FullName()
		case *types.Builtin:
			return function.Name()
		}
	}
	return ""
}

// receiver returns what a method is called on.
func receiver(call ast.Expr) ast.Expr {
	return ast.Unparen(call.(*ast.CallExpr).Fun).(*ast.SelectorExpr).X
}

// origins returns the expressions that a value comes from: constants, variables without a known value, and calls of
// functions that are not inspected.
func (p *program) origins(e ast.Expr) (found []ast.Expr) {
	visited := map[ast.Expr]bool{}
	for left := []ast.Expr{e}; len(left) > 0; {
		e, left = ast.Unparen(left[0]), left[1:]
		if visited[e] {
			continue
		}
		visited[e] = true
		if next := p.next(e); next != nil {
			left = append(left, next...)
		} else {
			found = append(found, e)
		}
	}
	return found
}

// next returns the expressions that a value is made of, nil if it is an origin.
func (p *program) next(e ast.Expr) []ast.Expr {
	if p.info.Types[e].Value != nil {
		return nil
	}
	switch e := e.(type) {
	case *ast.Ident:
		if variable, ok := p.info.ObjectOf(e).(*types.Var); ok {
			return p.values[variable.Pos()]
		}
	case *ast.SelectorExpr:
		return p.next(e.Sel)
	case *ast.IndexExpr:
		return []ast.Expr{e.X}
	case *ast.StarExpr:
		return []ast.Expr{e.X}
	case *ast.UnaryExpr:
		return []ast.Expr{e.X}
	case *ast.KeyValueExpr:
		return []ast.Expr{e.Value}
	case *ast.BinaryExpr:
		if e.Op == token.QUO || e.Op == token.MUL && p.info.Types[e.X].Value == nil {
			return []ast.Expr{e.X}
		} else if e.Op == token.MUL {
			return []ast.Expr{e.Y} // sums are not followed: what else is in them may be long
		}
	case *ast.CompositeLit:
		if _, isStruct := p.info.TypeOf(e).Underlying().(*types.Struct); !isStruct {
			return e.Elts
		}
	case *ast.CallExpr:
		return p.returned(e)
	}
	return nil
}

// returned returns the values that a call may return.
func (p *program) returned(call *ast.CallExpr) []ast.Expr {
	name := p.called(call)
	switch {
	case p.info.Types[call.Fun].IsType(), name == "append", name == "min", name == "max":
		return call.Args
	case strings.HasPrefix(name, "(time.Duration)."), strings.HasPrefix(name, "(time.Time).") && name != "(time.Time).Sub":
		return []ast.Expr{receiver(call)}
	}
	of, ok := p.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok || of.Results().Len() == 0 || !isInspected(p.at(of.Results().At(0).Pos()).Filename) {
		return nil
	}
	return p.values[of.Results().At(0).Pos()]
}
