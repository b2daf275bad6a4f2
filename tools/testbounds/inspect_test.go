package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// header is the beginning of a test file: thirteen lines.
const header = `package a

import (
	"context"; "net"; "net/http"; "testing"; "testing/synctest"; "time"
	"test/await"; "test/load"; "product"
)

var _, _, _, _, _, _, _ = context.Canceled, http.Get, synctest.Wait, time.Now, await.Within, load.Probe, product.Do
var done, connection = make(chan int), net.Conn(nil)
func run(...string) {}
var _ *testing.T
`

// imported are what the tests import. The product is not inspected.
var imported = []struct{ name, source string }{
	{"test/await", `package await
import ("context"; "time")
const patience = 3 * time.Minute
func Patience() time.Duration { return patience }
func Within(ctx context.Context, limit time.Duration, ready func() bool) {
	ctx, _ = context.WithTimeout(ctx, limit)
	_ = ctx
}
`},
	{"product", `package product
import "time"
const Interval = 5 * time.Second
type Options struct { Run func(); Timeout time.Duration }
type Doer interface { Do() }
func Do(any) {}
`},
	{"test/load", `package load
import ("net/http"; "time")
type Config struct { Timeout time.Duration }
func Probe(c Config) { _ = &http.Client{Timeout: c.Timeout} }
`},
}

// sources type-checks what the tests import, and then a test file.
type sources struct {
	*program
	checked map[string]*types.Package
}

// Import implements types.Importer.
func (s *sources) Import(name string) (*types.Package, error) { return s.checked[name], nil }

// add type-checks a file of its own package.
func (s *sources) add(t *testing.T, name, source string) {
	t.Helper()
	file, err := parser.ParseFile(s.fset, name+"/a_test.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: s}
	s.checked[name], err = config.Check(name, s.fset, []*ast.File{file}, &s.info)
	if err != nil {
		t.Fatal(err)
	}
	if name != "product" {
		s.files[name] = file
	}
}

// specification is what is found in a test file. Lines are counted from the end of the header.
type specification struct {
	name, source string
	want         []string
}

func check(t *testing.T, tests []specification) {
	t.Helper()
	fset := token.NewFileSet()
	config := &packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile, Fset: fset}
	standard, err := packages.Load(config, "context", "net", "net/http", "testing", "testing/synctest", "time")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &sources{newProgram("."), map[string]*types.Package{}}
			s.fset = fset
			for _, each := range standard {
				s.checked[each.PkgPath] = each.Types
			}
			for _, each := range imported {
				s.add(t, each.name, each.source)
			}
			s.add(t, "a", header+tt.source)
			var found []string
			for _, each := range s.inspect() {
				found = append(found, fmt.Sprintf("%d: %s", each.line-strings.Count(header, "\n"), each.rule))
			}
			if !slices.Equal(tt.want, found) {
				t.Errorf("findings %q, want %q", found, tt.want)
			}
		})
	}
}

// test wraps statements in a test, all on one line of the source.
func test(statements string) string {
	return "func TestA(t *testing.T) { began := time.Now(); _ = began; " + statements + " }"
}

func TestElapsed(t *testing.T) {
	upper := []string{"1: elapsed"}
	check(t, []specification{
		{
			"more than a limit fails",
			test(`if took := time.Since(began); took > time.Second { t.Error(took) }`),
			upper,
		},
		{"a limit is less", test(`if 5 < time.Since(began).Seconds() { t.Fail() }`), upper},
		{"less than a limit passes", test(`if time.Since(began) < time.Second { t.Log() } else { t.Fail() }`), upper},
		{"not less than a limit fails", test(`if !(time.Since(began) <= time.Second) { t.Fail() }`), upper},
		{
			"one of several conditions",
			test(`if t == nil || time.Now().Sub(began) >= product.Interval { t.Fatal() }`),
			upper,
		},
		{"by a case", test(`switch took := time.Since(began); { case took > time.Second: t.Fail() }`), upper},
		{"by a variable", test(`isLate := time.Since(began) > time.Second; if isLate { t.Fail() }`), upper},
		{
			"by a variable that is to be true", test(`isQuick := time.Since(began) < time.Second; if !isQuick { t.Fail() }`),
			upper,
		},
		{
			"the longest of several",
			test(`var all []time.Duration; all = append(all, time.Since(began)); ` +
				`for _, took := range all { if took > 5 { t.Fail() } }`),
			upper,
		},
		{"returned by a helper", test("if took, _ := wake(t); took > time.Second { t.Fail() }") + "\n" +
			"func wake(t *testing.T) (time.Duration, error) { a := time.Now(); return time.Since(a), nil }", upper},
		{
			"an error of a helper",
			"func wakes(began time.Time) error { if time.Since(began) > time.Second { return context.Canceled }; return nil }",
			upper,
		},
		{
			"a condition of a helper",
			"func isQuick(began time.Time) bool { return time.Since(began) < time.Second }",
			upper,
		},
		{"a deadline fails", test(`if time.Now().After(began.Add(time.Second)) { t.Fatal() }`), upper},
		{
			"a loop until a deadline",
			test(`for deadline := began.Add(time.Second); time.Now().Before(deadline); { if t != nil { return } }; t.Fatal()`),
			upper,
		},
		{
			"a loop that ends at a limit",
			test(`for { if time.Since(began) > time.Second { break } }; t.Fatal()`),
			upper,
		},

		{"less than a limit fails", test(`if time.Since(began) < time.Second { t.Fail() }`), nil},
		{"more than a limit passes", test(`for t != nil { ok := time.Since(began) > time.Second; _ = ok }`), nil},
		{"before a time fails", test(`if time.Now().Before(began.Add(time.Second)) { t.Fail() }`), nil},
		{
			"both",
			test(`if took := time.Since(began); took < time.Second || took > time.Minute { t.Fail() }`),
			upper,
		},

		{"a time is logged", test(`t.Log(time.Since(began), time.Since(began) > time.Second)`), nil},
		{"the patience", test(`patience := await.Patience(); if time.Since(began) > patience { t.Fatal() }`), nil},
		{"more than the patience", test(`if time.Since(began) > 5 * time.Minute { t.Fatal() }`), nil},
		{
			"a pause",
			test(`for t != nil { if time.Since(began) < time.Second { continue }; began = time.Now() }`),
			nil,
		},
		{"for a while", test(`for time.Since(began) < time.Second { t.Log() }`), nil},
		{"which was longer", test(`other := time.Now(); if time.Since(began) < time.Since(other) { t.Fail() }`), nil},
		{"the order of times", test(`if time.Now().Before(began) { t.Fail() }`), nil},
		{
			"timestamps of the product, not before",
			"func late(t *testing.T, a, b time.Time) { if b.Sub(a) < time.Second { t.Fail() } }",
			nil,
		},
		{
			"timestamps of the product, not after",
			"func late(t *testing.T, a, b time.Time) { if b.Sub(a) > time.Second { t.Fail() } }",
			upper,
		},
		{"a rate", test(`if rate := 100 / time.Since(began).Seconds(); rate > 5 { t.Fail() }`), nil},
	})
}

func TestLimit(t *testing.T) {
	short := []string{"1: limit"}
	check(t, []specification{
		{"a context", test(`context.WithTimeout(t.Context(), 30 * time.Second)`), short},
		{
			"a context by a constant",
			test(`const limit = time.Minute; context.WithTimeout(t.Context(), 2 * limit - time.Second)`),
			short,
		},
		{
			"a context by a variable",
			test(`limit := time.Minute; if t == nil { limit = time.Hour }; context.WithTimeout(t.Context(), limit)`),
			short,
		},
		{
			"a context by a constant of the product",
			test(`context.WithTimeout(t.Context(), 3 * product.Interval)`),
			short,
		},
		{"a deadline", test(`context.WithDeadline(t.Context(), began.Add(time.Second))`), short},
		{
			"a deadline by a variable",
			test(`deadline := began.Add(time.Second); context.WithDeadline(t.Context(), deadline)`),
			short,
		},
		{"a connection", test(`connection.SetReadDeadline(began.Add(time.Second))`), short},
		{"a client", test(`_ = &http.Client{Timeout: time.Second}`), short},
		{"a value of a flag", test(`run("wait", "--timeout", (5 * time.Second).String())`), short},
		{"a client, later", test(`c := http.Client{}; c.Timeout = time.Second`), short},
		{"a load client", test(`load.Probe(load.Config{Timeout: time.Second})`), short},
		{"a load client, later", test(`c := load.Config{}; c.Timeout = time.Second; load.Probe(c)`), short},
		{"a call later", test(`time.AfterFunc(time.Second, t.FailNow)`), short},
		{"a wait", test(`await.Within(t.Context(), time.Minute, nil)`), short},
		{"a command", test(`run("kubectl wait pod/a --timeout=60s --for=delete")`), short}, //testbounds:allow a source
		{
			"a command with a constant",
			test(`const limit = time.Minute; run("kubectl", "--timeout=" + limit.String())`),
			short,
		},
		{"a timer that fails", test(`select { case <-done: case <-time.After(time.Second): t.Fatal() }`), short},
		{
			"a timer that ends a loop",
			test(`loop: for { select { case <-done: case <-time.After(time.Second): break loop } }`),
			short,
		},
		{
			"a timer of a variable",
			test(`limit := time.NewTimer(time.Second); for { select { case <-done: case <-limit.C: t.Fatal() } }`),
			short,
		},
		{
			"a channel of a variable",
			test(`for limit := time.After(time.Second); ; { select { case <-done: case <-limit: t.Fatal() } }`),
			short,
		},
		{
			"an argument of a helper",
			test("until(t, 5 * time.Second)") +
				"\nfunc until(t *testing.T, d time.Duration) {\ncontext.WithTimeout(t.Context(), d) }",
			short,
		},
		{"an argument of a helper of a helper", test("until(t, 5)") +
			"\nfunc until(t *testing.T, d time.Duration) { within(t, d) }" +
			"\nfunc within(t *testing.T, d time.Duration) { <-limit(d).Done() }" +
			"\nfunc limit(d time.Duration) context.Context { c, _ := context.WithTimeout(nil, d); return c }", short},
		{
			"an argument of a function literal",
			test(`until := func(d time.Duration) { context.WithTimeout(t.Context(), d) }; until(5)`),
			short,
		},
		{"a field", "var all = []struct{ limit time.Duration }{{time.Hour},\n{time.Second}}\n" +
			test(`for _, tt := range all { context.WithTimeout(t.Context(), tt.limit) }`), []string{"2: limit"}},

		{"the patience", test(`context.WithTimeout(t.Context(), await.Patience())`), nil},
		{"a sum", test(`context.WithTimeout(t.Context(), await.Patience() + time.Second)`), nil},
		{"2 minutes", test(`context.WithTimeout(t.Context(), 2 * time.Minute); run("--timeout=120s")`), nil},
		{"a context that has ended", test(`context.WithTimeout(t.Context(), 0)`), nil},
		{
			"a pause between two looks",
			test(`for { select { case <-done: return; case <-time.After(time.Second): } }`),
			nil,
		},
		{"a pause by a timer", test(`pause := time.NewTimer(time.Second); <-pause.C`), nil},
		{
			"a sum of parameters",
			test(`until(5, time.Hour)`) +
				"\nfunc until(a, b time.Duration) { context.WithTimeout(nil, a + b) }",
			nil,
		},
		{
			"settings of the product",
			test(`timeout := time.Second; serve(timeout)`) +
				"\nfunc serve(timeout time.Duration) {}",
			nil,
		},
	})
}

func TestSleep(t *testing.T) {
	check(t, []specification{
		{"a sleep", test(`time.Sleep(time.Until(began))`), []string{"1: sleep"}},
		{"by a channel", test(`<-time.After(time.Second)`), []string{"1: sleep"}},
		{
			"while nothing may happen",
			test(`select { case <-done: t.Fail(); case <-time.After(time.Second): }`),
			[]string{"1: sleep"},
		},
	})
}

func TestBubbles(t *testing.T) {
	check(t, []specification{
		{
			"a bubble",
			test(`synctest.Test(t, func(t *testing.T) { time.Sleep(5); context.WithTimeout(t.Context(), 5); ` +
				`if time.Since(began) > 5 { t.Fail() } })`),
			nil,
		},
		{
			"around a bubble",
			"func TestA(t *testing.T) {\ntime.Sleep(5)\nsynctest.Test(t, func(t *testing.T) { time.Sleep(5) }) }",
			[]string{"2: sleep"},
		},
		{"a named function", test(`synctest.Test(t, inside)`) + "\nfunc inside(t *testing.T) { time.Sleep(5) }", nil},
		{
			"a helper of bubbles",
			test(`synctest.Test(t, func(t *testing.T) { pass() })`) +
				"\nfunc pass() { wait() }\nfunc wait() { time.Sleep(5) }",
			nil,
		},
		{"a helper of both", test(`synctest.Test(t, func(t *testing.T) { pass() })`) +
			"\nfunc pass() { wait() }\nfunc wait() { time.Sleep(5) }\nfunc TestB(t *testing.T) { wait() }", []string{"3: sleep"}},
		{
			"a method of bubbles",
			test(`synctest.Test(t, func(t *testing.T) { (&stage{}).pass() })`) +
				"\ntype stage struct{}\nfunc (s *stage) pass() { time.Sleep(5) }",
			nil,
		},
		{
			"a method behind an interface",
			test(`synctest.Test(t, func(t *testing.T) { product.Do(stage{}) })`) +
				"\ntype stage struct{}\nfunc (s stage) Do() { time.Sleep(5) }",
			nil,
		},
		{
			"a method behind an interface, outside",
			test(`product.Do(stage{})`) +
				"\ntype stage struct{}\nfunc (s stage) Do() { time.Sleep(5) }",
			[]string{"3: sleep"},
		},
		{
			"a function of a table",
			test(`for _, tt := range []struct{ play func() }{{func() { time.Sleep(5) }}} { ` +
				`synctest.Test(t, func(t *testing.T) { tt.play() }) }`),
			nil,
		},
		{
			"a function of a table, outside",
			test(`for _, tt := range []struct{ play func() }{{func() { time.Sleep(5) }}} { tt.play() }`),
			[]string{"1: sleep"},
		},
		{"a function of a function in a table", test(`for _, play := range map[string]func(){"a": pass(5)} { `+
			`synctest.Test(t, func(t *testing.T) { play() }) }`) +
			"\nfunc pass(d time.Duration) func() { return func() { time.Sleep(d) } }", nil},
		{
			"a function in a struct of the product",
			test(`type step = func(); pass := func() step { return func() { time.Sleep(5) } }; all := []product.Options{{Run: pass()}}; ` +
				`synctest.Test(t, func(t *testing.T) { product.Do(all[0]) })`),
			nil,
		},
		{
			"a wrapper of bubbles",
			test(`inBubble(t, func(t *testing.T) { time.Sleep(5) })`) +
				"\nfunc inBubble(t *testing.T, run func(*testing.T)) { synctest.Test(t, run) }",
			nil,
		},
		{
			"a subtest of a test with bubbles",
			test(`t.Run("a", func(t *testing.T) { time.Sleep(5); synctest.Test(t, func(t *testing.T) { time.Sleep(5) }) })`),
			[]string{"1: sleep"},
		},
		{
			"a function of a bubble for a helper of both",
			test(`play(func() {}); synctest.Test(t, func(t *testing.T) { play(func() { time.Sleep(5) }) })`) +
				"\nfunc play(f func()) { f() }",
			nil,
		},
		{"limits of a helper of both", test(`until(t, time.Hour); `+
			`synctest.Test(t, func(t *testing.T) { until(t, 5) })`) +
			"\nfunc until(t *testing.T, d time.Duration) { context.WithTimeout(t.Context(), d) }", nil},
	})
}

func TestAllow(t *testing.T) {
	check(t, []specification{
		{"at the end of the line", test(`time.Sleep(5)`) + " //testbounds:allow it is slow on purpose", nil},
		{"on the line above", "//testbounds:allow it is slow on purpose\n" + test(`time.Sleep(5)`), nil},
		{"all of a line", test(`time.Sleep(5); context.WithTimeout(nil, 5)`) + " //testbounds:allow on purpose", nil},
		{
			"two lines above",
			"//testbounds:allow it is slow on purpose\n\n" + test(`time.Sleep(5)`),
			[]string{"1: comment", "3: sleep"},
		},
		{
			"only the line itself, if there is something",
			test(`time.Sleep(5)`) + " //testbounds:allow on purpose\nfunc TestB(t *testing.T) { time.Sleep(5) }",
			[]string{"2: sleep"},
		},
		{"without a reason", test(`time.Sleep(5)`) + " //testbounds:allow", []string{"1: comment"}},
		{"without a finding", test(`t.Log()`) + " //testbounds:allow on purpose", []string{"1: comment"}},
	})
}
