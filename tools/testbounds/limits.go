package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"time"
)

// patience is the shortest limit that a wait on real time may have.
const patience = 2 * time.Minute

// inspectLimit reports limits of waits, and sleeps.
func (p *program) inspectLimit(n ast.Node) {
	if e, ok := n.(ast.Expr); ok && p.isFlag {
		p.limit(e)
	}
	p.isFlag = false
	switch n := n.(type) {
	case *ast.CallExpr:
		p.inspectCall(n)
	case *ast.BasicLit:
		p.inspectFlag(n)
	case *ast.Ident:
		field, ok := p.info.Uses[n].(*types.Var)
		if ok && field.IsField() && n.Name == "Timeout" && (field.Pkg().Path() == "net/http" || field.Pkg().Path() == "net") {
			p.limit(n)
		}
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			p.inspectReceive(n)
		}
	}
}

// inspectCall reports a call that limits a wait.
func (p *program) inspectCall(call *ast.CallExpr) {
	switch name := p.called(call); {
	case name == "time.Sleep":
		p.report(call, "sleep", "time.Sleep waits for a fixed time")
	case name == "time.AfterFunc":
		p.limit(call.Args[0])
	case strings.HasPrefix(name, "context.WithTimeout"):
		p.limit(call.Args[1])
	case strings.HasPrefix(name, "context.WithDeadline"),
		strings.Contains(name, ").Set") && strings.HasSuffix(name, "Deadline"):
		for _, added := range p.added(call.Args[len(call.Args)-1]) {
			p.limit(added)
		}
	}
}

// limit reports the origin of a duration that limits a wait, if it is short.
func (p *program) limit(e ast.Expr) {
	if !p.isReal(e) {
		return
	}
	for _, origin := range p.origins(e) {
		if length := p.length(origin); 0 < length && length < patience {
			p.report(origin, "limit", "a wait ends after %s: use test/kit/await", length)
		}
	}
}

// length returns the value of a constant, 0 if it is no duration.
func (p *program) length(e ast.Expr) time.Duration {
	of := p.info.Types[e]
	if of.Value == nil || of.Type.String() != "time.Duration" {
		return 0
	}
	length, _ := constant.Int64Val(of.Value)
	return time.Duration(length)
}

// added returns the durations that a time has been added, or the values of a variable have.
func (p *program) added(e ast.Expr) (durations []ast.Expr) {
	values := []ast.Expr{e}
	if name, ok := e.(*ast.Ident); ok {
		values = p.values[p.info.ObjectOf(name).Pos()]
	}
	for _, value := range values {
		if p.called(value) == "(time.Time).Add" {
			durations = append(durations, value.(*ast.CallExpr).Args[0])
		}
	}
	return durations
}

// timeoutFlag is the limit of a command such as kubectl wait, whose value may be the expression that follows.
var timeoutFlag = regexp.MustCompile(`--timeout[= ]?["'` + "`" + `]?(\w*)`)

// inspectFlag reports the flag --timeout in a text. The demo's tests compare commands, and run none.
func (p *program) inspectFlag(text *ast.BasicLit) {
	for _, found := range timeoutFlag.FindAllStringSubmatch(text.Value, -1) {
		length, err := time.ParseDuration(found[1])
		if err == nil && length < patience && !strings.HasPrefix(p.at(text.Pos()).Filename, "e2e/demo/") {
			p.report(text, "limit", "a command ends after %s: use test/kit/await", length)
		}
		p.isFlag = found[1] == ""
	}
}
