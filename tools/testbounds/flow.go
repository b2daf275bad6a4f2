package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// node is a part of the flow: a types.Object (a function, a variable, a parameter, a field, a type), a *ast.FuncLit
// that has a name, a result, or a root.
type node any

// result is a returned value of a function, or of a function literal that a variable has.
type result struct {
	function types.Object
	index    int
}

// root is where calls begin: in a bubble, or not.
type root bool

const (
	bubble root = true
	others root = false
)

// flow is what is known of where the values of a unit come from, and of who calls whom.
type flow struct {
	*unit
	// values are the expressions that are assigned to a node.
	values map[node][]ast.Expr
	// results are the results of calls with several results that are assigned to a node.
	results map[node][]result
	// edges lead from a node to those that it uses.
	edges map[node][]node
	// uses are where a variable or a function is used otherwise than as the target of an assignment.
	uses map[types.Object][]*ast.Ident
	// params are the parameters of functions.
	params map[types.Object]bool
	// named are function literals that are assigned to something: who uses that calls them.
	named map[*ast.FuncLit]bool
	// moved are expressions whose value goes to another node, and is not used in place.
	moved map[ast.Node]bool
	// faked are the nodes that run in bubbles only.
	faked map[node]bool
}

// newFlow reads a unit.
func newFlow(u *unit) *flow {
	f := &flow{
		unit: u, values: map[node][]ast.Expr{}, results: map[node][]result{}, edges: map[node][]node{},
		uses: map[types.Object][]*ast.Ident{}, params: map[types.Object]bool{}, named: map[*ast.FuncLit]bool{},
		moved: map[ast.Node]bool{}, faked: map[node]bool{},
	}
	for _, file := range u.files {
		ast.Inspect(file, f.addValues)
	}
	for _, file := range u.files {
		ast.Inspect(file, f.addUses)
	}
	f.addMethods()
	f.addFaked()
	return f
}

// addValues notes the assignments of a node.
func (f *flow) addValues(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		f.assignAll(n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		targets := make([]ast.Expr, len(n.Names))
		for i, name := range n.Names {
			targets[i] = name
		}
		f.assignAll(targets, n.Values)
	case *ast.SendStmt:
		f.assign(f.target(n.Chan), n.Value)
	case *ast.RangeStmt:
		f.addRange(n)
	case *ast.CompositeLit:
		f.addFields(n)
	case *ast.CallExpr:
		f.addArguments(n)
	case *ast.ReturnStmt:
		f.addResults(n)
	case *ast.FuncType:
		for _, field := range n.Params.List {
			for _, name := range field.Names {
				f.params[f.info.Defs[name]] = true
			}
		}
	}
	return true
}

// assign notes that the value of an expression goes to a target.
func (f *flow) assign(target node, value ast.Expr) {
	if target == nil {
		return
	}
	f.values[target] = append(f.values[target], value)
	if object, ok := target.(types.Object); ok && !f.isSeen(object) {
		return // who uses it is not known: the value counts as used in place
	}
	for _, origin := range f.origins(value) {
		f.edges[target] = append(f.edges[target], origin.node)
		f.moved[origin.at] = true
		if literal, ok := origin.at.(*ast.FuncLit); ok {
			f.named[literal] = true
		}
	}
}

// assignAll notes an assignment of one or more values.
func (f *flow) assignAll(targets, values []ast.Expr) {
	for i, target := range targets {
		switch {
		case len(values) == len(targets):
			f.assign(f.target(target), values[i])
		case len(values) == 1:
			if call, ok := ast.Unparen(values[0]).(*ast.CallExpr); ok {
				f.assignResult(f.target(target), call, i)
			} else if i == 0 { // value, ok := ...
				f.assign(f.target(target), values[0])
			}
		}
	}
}

// assignResult notes that a target gets a result of a call.
func (f *flow) assignResult(target node, call *ast.CallExpr, index int) {
	function := f.function(call)
	if target == nil || function == nil {
		return
	}
	from := result{function, index}
	f.edges[target] = append(f.edges[target], from)
	f.results[target] = append(f.results[target], from)
	f.moved[call] = true
}

// addRange notes what the variable of a loop gets.
func (f *flow) addRange(loop *ast.RangeStmt) {
	variable := loop.Value
	if _, isChannel := under(f.info.TypeOf(loop.X)).(*types.Chan); isChannel {
		variable = loop.Key
	}
	if variable != nil {
		f.assign(f.target(variable), loop.X)
	}
}

// addFields notes the values of the fields of a struct literal.
func (f *flow) addFields(literal *ast.CompositeLit) {
	structure, isStruct := under(f.info.TypeOf(literal)).(*types.Struct)
	for i, element := range literal.Elts {
		pair, isPair := element.(*ast.KeyValueExpr)
		switch {
		case isPair:
			key, isIdent := pair.Key.(*ast.Ident)
			if field, ok := f.info.Uses[key].(*types.Var); isIdent && ok && field.IsField() {
				f.moved[key] = true
				f.assign(field, pair.Value)
			}
		case isStruct && i < structure.NumFields():
			f.assign(structure.Field(i), element)
		}
	}
}

// addArguments notes the values of the parameters of a call.
func (f *flow) addArguments(call *ast.CallExpr) {
	if name := f.called(call); name == "testing/synctest.Test" && len(call.Args) == 2 {
		f.assign(bubble, call.Args[1])
		return
	}
	for i, argument := range call.Args {
		if parameter := f.parameter(call, i); parameter != nil {
			f.assign(parameter, argument)
		}
	}
}

// parameter returns the parameter that an argument of a call goes to, nil if it is not known.
func (f *flow) parameter(call *ast.CallExpr, index int) *types.Var {
	signature, ok := under(f.info.TypeOf(call.Fun)).(*types.Signature)
	if !ok || signature.Params().Len() == 0 {
		return nil
	}
	last := signature.Params().Len() - 1
	if index > last && !signature.Variadic() {
		return nil
	}
	return signature.Params().At(min(index, last)).Origin()
}

// addResults notes what a function returns.
func (f *flow) addResults(statement *ast.ReturnStmt) {
	function, named := f.declared(f.enclosing(statement))
	if function == nil {
		return
	}
	count := results(function)
	if len(statement.Results) == 1 && count > 1 {
		if call, ok := ast.Unparen(statement.Results[0]).(*ast.CallExpr); ok {
			for i := range count {
				f.assignResult(result{function, i}, call, i)
			}
		}
		return
	}
	for i, value := range statement.Results {
		f.assign(result{function, i}, value)
	}
	if len(statement.Results) > 0 {
		return
	}
	index := 0
	for _, field := range fields(named) {
		for _, name := range field.Names {
			f.assign(result{function, index}, name)
			index++
		}
	}
}

// target returns what an assignment to an expression changes: a variable, a field, or for an element its container.
func (f *flow) target(e ast.Expr) node {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		f.moved[e] = true
		if object, ok := f.object(e).(*types.Var); ok {
			return object
		}
	case *ast.SelectorExpr:
		return f.target(e.Sel)
	case *ast.IndexExpr:
		return f.target(e.X)
	case *ast.StarExpr:
		return f.target(e.X)
	}
	return nil
}

// origin is a node whose value an expression has, and where the expression says so.
type origin struct {
	node node
	at   ast.Node
}

// origins returns where the value of an expression comes from, as far as it is passed on unchanged.
func (f *flow) origins(e ast.Expr) []origin {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		if !f.isInBubble(e) {
			return []origin{{e, e}}
		}
	case *ast.Ident:
		switch object := f.object(e).(type) {
		case *types.Var, *types.Func:
			return []origin{{object, e}}
		}
	case *ast.SelectorExpr:
		return f.origins(e.Sel)
	case *ast.IndexExpr:
		return f.origins(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND || e.Op == token.ARROW {
			return f.origins(e.X)
		}
	case *ast.CompositeLit:
		return f.elements(e)
	case *ast.CallExpr:
		return f.passed(e)
	}
	return nil
}

// elements returns the origins of the elements of a slice, an array or a map, and of a struct those of the fields
// whose uses are not known.
func (f *flow) elements(literal *ast.CompositeLit) (all []origin) {
	structure, isStruct := under(f.info.TypeOf(literal)).(*types.Struct)
	if isStruct && structure.NumFields() > 0 && f.isSeen(structure.Field(0)) {
		return nil
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Value
		}
		all = append(all, f.origins(element)...)
	}
	return all
}

// passed returns the origins of what a call returns.
func (f *flow) passed(call *ast.CallExpr) (all []origin) {
	if function := f.function(call); function != nil {
		return []origin{{result{function, 0}, call}}
	}
	if f.isConversion(call) || f.called(call) == "append" {
		for _, argument := range call.Args {
			all = append(all, f.origins(argument)...)
		}
	}
	return all
}
