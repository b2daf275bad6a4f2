package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// addUses notes what a node uses.
func (f *flow) addUses(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		object := f.info.Uses[n]
		if object == nil || !f.isSeen(object) || f.moved[n] && !f.isRead(n) {
			return true
		}
		object = f.object(n)
		f.uses[object] = append(f.uses[object], n)
		if !f.moved[n] {
			f.addEdge(f.context(n), object)
		}
	case *ast.CallExpr:
		if function := f.function(n); function != nil && !f.moved[n] {
			for i := range results(function) {
				f.addEdge(f.context(n), result{function, i})
			}
		}
	}
	return true
}

// isRead returns whether an identifier whose value is moved is a value, and not the target of the assignment.
func (f *flow) isRead(name *ast.Ident) bool {
	switch parent := f.parents[name].(type) {
	case *ast.AssignStmt:
		return !slices.Contains(parent.Lhs, ast.Expr(name))
	case *ast.KeyValueExpr:
		return parent.Key != name
	}
	return true
}

func (f *flow) addEdge(from, to node) { f.edges[from] = append(f.edges[from], to) }

// addMethods has a type use those of its methods that nothing calls by name: they are called through interfaces.
func (f *flow) addMethods() {
	for _, file := range f.files {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil {
				continue
			}
			method, ok := f.info.Defs[function.Name].(*types.Func)
			if !ok || len(f.uses[method]) > 0 {
				continue
			}
			receiver := method.Signature().Recv().Type()
			if pointer, ok := receiver.(*types.Pointer); ok {
				receiver = pointer.Elem()
			}
			if named, ok := receiver.(*types.Named); ok {
				f.addEdge(named.Origin().Obj(), method)
			}
		}
	}
}

// addFaked finds what runs in bubbles only. A function that nothing calls counts as called outside of bubbles.
func (f *flow) addFaked() {
	fake, outside := map[node]bool{}, map[node]bool{}
	f.reach(bubble, fake)
	f.reach(others, outside)
	var functions []node
	for _, file := range f.files {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				object := f.info.Defs[function.Name]
				functions = append(functions, object)
				if f.isEntry(function) {
					f.reach(object, outside)
				}
			}
		}
	}
	for _, function := range functions {
		if !fake[function] && !outside[function] {
			f.reach(function, outside)
		}
	}
	for each := range fake {
		f.faked[each] = !outside[each]
	}
}

// reach adds a node, and all that it uses.
func (f *flow) reach(from node, reached map[node]bool) {
	if reached[from] {
		return
	}
	reached[from] = true
	for _, next := range f.edges[from] {
		f.reach(next, reached)
	}
}

// isEntry returns whether other packages or the test driver call a function.
func (f *flow) isEntry(function *ast.FuncDecl) bool {
	name := function.Name.Name
	if !strings.HasSuffix(f.fset.Position(function.Pos()).Filename, "_test.go") {
		return function.Name.IsExported() || name == "init" || name == "main"
	}
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if function.Recv == nil && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "init"
}

// isFaked returns whether an expression is evaluated in bubbles only.
func (f *flow) isFaked(n ast.Node) bool { return f.faked[f.context(n)] }

// isInBubble returns whether a function literal is written in one that runs in a bubble: so does it, whoever calls it.
func (f *flow) isInBubble(literal ast.Node) bool {
	for n := f.parents[literal]; n != nil; n = f.parents[n] {
		if call, ok := f.parents[n].(*ast.CallExpr); ok && call.Fun != n && f.called(call) == "testing/synctest.Test" {
			return true
		}
	}
	return false
}

// context returns the function, the named literal or the type that a node is part of.
func (f *flow) context(n ast.Node) node {
	for ; n != nil; n = f.parents[n] {
		switch n := n.(type) {
		case *ast.FuncLit:
			if f.named[n] {
				return n
			}
		case *ast.FuncDecl:
			return f.info.Defs[n.Name]
		case *ast.TypeSpec:
			return f.info.Defs[n.Name]
		}
	}
	return others
}

// enclosing returns the declaration or the literal of the function that a node is part of.
func (u *unit) enclosing(n ast.Node) ast.Node {
	for n = u.parents[n]; n != nil; n = u.parents[n] {
		switch n.(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return n
		}
	}
	return nil
}

// object returns what an identifier stands for. All instances of a generic function or type have one object.
func (u *unit) object(name *ast.Ident) types.Object {
	switch object := u.info.ObjectOf(name).(type) {
	case *types.Var:
		return object.Origin()
	case *types.Func:
		return object.Origin()
	default:
		return object
	}
}

// isSeen returns whether an object is declared in a file that is judged, so that all its uses are known.
func (u *unit) isSeen(object types.Object) bool {
	for _, file := range u.files {
		if file.FileStart <= object.Pos() && object.Pos() < file.FileEnd {
			return true
		}
	}
	return false
}

// callee returns the identifier of the function that is called, nil if it has none.
func callee(call *ast.CallExpr) *ast.Ident {
	function := ast.Unparen(call.Fun)
	for {
		switch f := function.(type) {
		case *ast.IndexExpr: // an instance of a generic function
			function = f.X
		case *ast.SelectorExpr:
			return f.Sel
		case *ast.Ident:
			return f
		default:
			return nil
		}
	}
}

// function returns the function of the unit that is called, or the variable that has it, nil for all others.
func (u *unit) function(call *ast.CallExpr) types.Object {
	name := callee(call)
	if name == nil {
		return nil
	}
	function := u.object(name)
	if function == nil || results(function) == 0 || !u.isSeen(function) {
		return nil
	}
	return function
}

// results returns how many results a function has, or one that a variable has.
func results(function types.Object) int {
	signature, ok := function.Type().Underlying().(*types.Signature)
	if _, isType := function.(*types.TypeName); isType || !ok {
		return 0
	}
	return signature.Results().Len()
}

// declared returns the object of a declaration or a literal of a function, nil if it has none, and its results.
func (f *flow) declared(function ast.Node) (object types.Object, results *ast.FieldList) {
	switch function := function.(type) {
	case *ast.FuncDecl:
		return f.info.Defs[function.Name], function.Type.Results
	case *ast.FuncLit:
		object, _ = f.assignee(function).(types.Object)
		return object, function.Type.Results
	}
	return nil, nil
}

// called returns the name of the function that is called: "time.Since" for one of another package, with its whole path,
// ".Sub" for a method or a field, "append" for one of the package or of the language.
func (u *unit) called(call *ast.CallExpr) string {
	return u.qualified(call.Fun)
}

// qualified returns the name of a function or of a type, as called does.
func (u *unit) qualified(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if name, ok := e.X.(*ast.Ident); ok {
			if imported, ok := u.info.Uses[name].(*types.PkgName); ok {
				return imported.Imported().Path() + "." + e.Sel.Name
			}
		}
		return "." + e.Sel.Name
	case *ast.StarExpr:
		return u.qualified(e.X)
	}
	return ""
}

// receiver returns what a method is called on, nil if the call is of no method.
func receiver(call *ast.CallExpr) ast.Expr {
	if selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return selector.X
	}
	return nil
}

// isConversion returns whether a call is a conversion to another type.
func (u *unit) isConversion(call *ast.CallExpr) bool {
	return u.info.Types[call.Fun].IsType() && len(call.Args) == 1
}

// isReceive returns whether an expression receives from a channel.
func isReceive(n ast.Node) bool {
	receive, ok := n.(*ast.UnaryExpr)
	return ok && receive.Op == token.ARROW
}

// under returns the underlying type, nil if there is no type.
func under(of types.Type) types.Type {
	if of == nil {
		return nil
	}
	if pointer, ok := of.Underlying().(*types.Pointer); ok {
		of = pointer.Elem()
	}
	return of.Underlying()
}

// fields returns the fields of a list that may be missing.
func fields(list *ast.FieldList) []*ast.Field {
	if list == nil {
		return nil
	}
	return list.List
}
