package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// addUser records that a function uses an object.
func (p *program) addUser(n ast.Node, stack []ast.Node) {
	if name, ok := n.(*ast.Ident); ok && p.info.Uses[name] != nil {
		if function, ok := stack[min(1, len(stack)-1)].(*ast.FuncDecl); ok {
			used := p.info.Uses[name].Pos()
			p.users[used] = append(p.users[used], function)
		}
	}
}

// addStarters records that the callers of a function start testing/synctest bubbles.
func (p *program) addStarters(called token.Pos) {
	for _, user := range p.users[called] {
		if !p.starters[user] {
			p.starters[user] = true
			p.addStarters(user.Name.Pos())
		}
	}
}

// isReal reports whether a node runs outside of bubbles. In functions that start bubbles, function literals run in them
// unless they are subtests.
func (p *program) isReal(n ast.Node) bool {
	isLiteral := false
	for ; n != nil; n = p.parents[n] {
		switch n := n.(type) {
		case *ast.FuncLit:
			call, ok := p.parents[n].(*ast.CallExpr)
			isLiteral = isLiteral || !ok || p.called(call) != "(*testing.T).Run"
		case *ast.FuncDecl:
			return p.starters[n] && !isLiteral || p.isUsed(n, map[*ast.FuncDecl]bool{})
		}
	}
	return true
}

// isUsed reports whether a function is used outside of bubbles. An unused function is a test, or exported for other
// packages. A function that starts a bubble counts as using everything inside of it.
func (p *program) isUsed(function *ast.FuncDecl, visited map[*ast.FuncDecl]bool) bool {
	if visited[function] || p.starters[function] {
		return false
	}
	visited[function] = true
	users := p.users[function.Name.Pos()]
	if len(users) == 0 && function.Recv != nil {
		for n := range ast.Preorder(function.Recv.List[0].Type) { // its type is called through an interface
			if name, ok := n.(*ast.Ident); ok {
				users = append(users, p.users[p.info.ObjectOf(name).Pos()]...)
			}
		}
	}
	return len(users) == 0 || slices.ContainsFunc(users, func(user *ast.FuncDecl) bool { return p.isUsed(user, visited) })
}
