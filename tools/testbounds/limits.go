package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
	"time"
)

// patience is the shortest limit that a wait on real time may have.
const patience = 2 * time.Minute

// addReceive notes where a channel is received from.
func (j *judgement) addReceive(n ast.Node) bool {
	if !isReceive(n) {
		return true
	}
	channel := ast.Unparen(n.(*ast.UnaryExpr).X)
	if selector, ok := channel.(*ast.SelectorExpr); ok && selector.Sel.Name == "C" {
		channel = selector.X
	}
	for _, from := range j.origins(channel) {
		j.receives[from.node] = append(j.receives[from.node], n.(*ast.UnaryExpr))
	}
	return true
}

// judgeLimit reports limits of waits, and sleeps.
func (j *judgement) judgeLimit(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		j.judgeCall(n)
	case *ast.CompositeLit:
		j.judgeClient(n)
	case *ast.BasicLit:
		j.judgeFlag(n)
	}
}

// judgeCall reports a call that limits a wait.
func (j *judgement) judgeCall(call *ast.CallExpr) {
	name := j.called(call)
	switch {
	case name == "time.Sleep":
		j.report(call, sleep, "time.Sleep waits for a fixed time")
	case len(call.Args) == 0:
	case name == "context.WithTimeout", name == "context.WithTimeoutCause":
		j.limit(call.Args[1], name)
	case name == "context.WithDeadline", name == "context.WithDeadlineCause":
		j.deadline(call.Args[1], name)
	case strings.HasSuffix(name, "Deadline") && strings.HasPrefix(name, ".Set"):
		j.deadline(call.Args[0], name[1:])
	case name == "time.After", name == "time.NewTimer":
		j.judgeTimer(call, name)
	case name == "time.AfterFunc":
		j.limit(call.Args[0], name)
	default:
		j.judgeArguments(call)
	}
}

// limit reports a duration that limits a wait, if it is short. If it is a parameter or a field, what is assigned to
// that is reported.
func (j *judgement) limit(e ast.Expr, of string) {
	if j.isFaked(e) {
		return
	}
	length, isKnown, params := j.shortest(e, true)
	if isKnown && 0 < length && length < patience {
		j.report(e, limit, "%s limits a wait to %s: use test/kit/await", of, length)
	}
	for _, each := range params {
		if j.sinks[each] {
			continue
		}
		j.sinks[each] = true
		for value := range j.assigned(each) {
			j.limit(value, of)
		}
	}
}

// deadline reports a time that limits a wait, if it is short.
func (j *judgement) deadline(e ast.Expr, of string) {
	if added := j.added(e, true); added != nil {
		j.limit(added, of)
	}
}

// added returns the duration that makes an expression a deadline: what is added to another time. It follows a
// variable to what is assigned to that.
func (f *flow) added(e ast.Expr, follows bool) ast.Expr {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok && f.called(call) == ".Add" && len(call.Args) == 1 {
		return call.Args[0]
	}
	if name, ok := e.(*ast.Ident); ok && follows {
		for value := range f.assigned(f.object(name)) {
			if found := f.added(value, false); found != nil {
				return found
			}
		}
	}
	return nil
}

// judgeArguments reports the arguments of a helper of tests in another package that are the limit of a wait. Those of
// helpers in the same package are known from what the helper does with them.
func (j *judgement) judgeArguments(call *ast.CallExpr) {
	name := callee(call)
	if name == nil {
		return
	}
	function, ok := j.object(name).(*types.Func)
	if !ok || !waits(function) || !j.isHelper(function) {
		return
	}
	for i, argument := range call.Args {
		if parameter := j.parameter(call, i); parameter != nil && isLimit(parameter) {
			j.limit(argument, function.Name())
		}
	}
}

// isHelper returns whether an object is of another package with helpers of tests.
func (u *unit) isHelper(object types.Object) bool {
	if object.Pkg() == nil || u.isSeen(object) {
		return false
	}
	folder, isOurs := strings.CutPrefix(object.Pkg().Path(), u.module+"/")
	return isOurs && (isJudged(folder+"/_.go") || strings.HasSuffix(folder, "/await"))
}

// judgeFields reports what is assigned to those fields of structs of other packages with helpers that limit a wait.
func (j *judgement) judgeFields() {
	for target, values := range j.values {
		field, ok := target.(*types.Var)
		if !ok || !field.IsField() || !isLimit(field) || !j.isHelper(field) {
			continue
		}
		for _, value := range values {
			j.limit(value, "field "+field.Name())
		}
	}
}

// waits returns whether a function may wait: it has a context, a test, or something to call.
func waits(function *types.Func) bool {
	for parameter := range function.Signature().Params().Variables() {
		if _, isFunction := parameter.Type().Underlying().(*types.Signature); isFunction {
			return true
		}
		switch parameter.Type().String() {
		case "context.Context", "*testing.T", "testing.TB":
			return true
		}
	}
	return false
}

// isLimit returns whether a parameter or a field is by its name and type the limit of a wait.
func isLimit(variable *types.Var) bool {
	name := strings.ToLower(variable.Name())
	for _, suffix := range []string{"patience", "within", "limit", "timeout", "deadline"} {
		if strings.HasSuffix(name, suffix) {
			return variable.Type().String() == "time.Duration"
		}
	}
	return false
}

// judgeClient reports the limit of each request of a client.
func (j *judgement) judgeClient(literal *ast.CompositeLit) {
	name := j.qualified(literal.Type)
	if name != "net/http.Client" && name != "net.Dialer" {
		return
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Timeout" {
				j.limit(pair.Value, name[strings.LastIndex(name, "/")+1:])
			}
		}
	}
}

// judgeFlag reports the flag --timeout of a command, such as kubectl wait.
func (j *judgement) judgeFlag(literal *ast.BasicLit) {
	if literal.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil || strings.HasPrefix(j.fset.Position(literal.Pos()).Filename, "e2e/demo/") {
		return // the tests of the demo compare commands, and run none
	}
	for part := range strings.FieldsSeq(text) {
		value, isFlag := strings.CutPrefix(part, "--timeout")
		if !isFlag {
			continue
		}
		length, err := time.ParseDuration(strings.Trim(value, `="'`))
		if err == nil && 0 < length && length < patience {
			j.report(literal, limit, "--timeout limits a wait to %s: use test/kit/await", length)
		}
	}
	if strings.HasSuffix(text, "--timeout=") || text == "--timeout" {
		j.judgeFlagValue(literal)
	}
}

// judgeFlagValue reports the value of a flag that is a duration in its own expression.
func (j *judgement) judgeFlagValue(flag *ast.BasicLit) {
	var value ast.Expr
	switch parent := j.parents[flag].(type) {
	case *ast.BinaryExpr:
		value = parent.Y
	case *ast.CallExpr:
		value = after(parent.Args, flag)
	case *ast.CompositeLit:
		value = after(parent.Elts, flag)
	}
	if call, ok := value.(*ast.CallExpr); ok && j.called(call) == ".String" {
		j.limit(receiver(call), "--timeout")
	}
}

// after returns the expression after another one in a list.
func after(list []ast.Expr, one ast.Expr) ast.Expr {
	for i, each := range list {
		if each == one && i+1 < len(list) {
			return list[i+1]
		}
	}
	return nil
}
