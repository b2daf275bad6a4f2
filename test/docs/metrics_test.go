package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// declarations are the metrics that a file declares, with their labels.
type declarations struct {
	// prefix is that of names in options, and described that of names of descriptions.
	prefix, described string
	// helpers are functions in variables that declare a metric with their first argument as its name.
	helpers map[string]helper
	labels  map[string][]string
}

// helper has the labels of the metrics that a function declares.
type helper struct {
	prefix string
	labels []string
}

// labelsOfMetrics returns the labels of each metric in the code.
func labelsOfMetrics(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), `client_golang/prometheus"`) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, raw, 0)
		if err != nil {
			return err
		}
		declared := declarations{prefix: "kedify_", helpers: map[string]helper{}, labels: all}
		if found := regexp.MustCompile(`(?:Subsystem: |subsystem = "kedify", )"(\w+)"`).FindSubmatch(raw); found != nil {
			declared.prefix += string(found[1]) + "_"
		}
		if found := regexp.MustCompile(`NewDesc\("(kedify_\w+_)"`).FindSubmatch(raw); found != nil {
			declared.described = string(found[1])
		}
		ast.Inspect(file, declared.addHelper)
		ast.Inspect(file, declared.addMetric)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// addHelper adds a function that is assigned to a variable.
func (d declarations) addHelper(node ast.Node) bool {
	assigned, ok := node.(*ast.AssignStmt)
	if !ok || len(assigned.Lhs) != 1 {
		return true
	}
	name, isName := assigned.Lhs[0].(*ast.Ident)
	function, isFunction := assigned.Rhs[0].(*ast.FuncLit)
	if !isName || !isFunction {
		return true
	}
	added := helper{prefix: d.prefix, labels: stringsIn(function.Body)}
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if called, ok := node.(*ast.SelectorExpr); ok && called.Sel.Name == "NewDesc" {
			added.prefix = d.described
		}
		return true
	})
	d.helpers[name.Name] = added
	return true
}

// addMetric adds the metric that a call declares.
func (d declarations) addMetric(node ast.Node) bool {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return true
	}
	switch called := call.Fun.(type) {
	case *ast.Ident:
		declaring, isHelper := d.helpers[called.Name]
		if name, isText := textOf(call.Args[0]); isHelper && isText {
			d.add(declaring.prefix+name, slices.Concat(declaring.labels, stringsIn(call)))
		}
	case *ast.SelectorExpr:
		options, isOptions := call.Args[0].(*ast.CompositeLit)
		if !isOptions || !strings.HasPrefix(called.Sel.Name, "New") {
			return true
		}
		for _, element := range options.Elts {
			field, isField := element.(*ast.KeyValueExpr)
			if !isField {
				continue
			}
			key, isKey := field.Key.(*ast.Ident)
			if name, isText := textOf(field.Value); isKey && key.Name == "Name" && isText {
				d.add(d.prefix+name, stringsIn(call))
			}
		}
	}
	return true
}

// add adds a metric.
func (d declarations) add(name string, labels []string) {
	slices.Sort(labels)
	d.labels[name] = slices.Compact(labels)
}

// textOf returns the value of a string literal.
func textOf(node ast.Expr) (value string, isText bool) {
	literal, isLiteral := node.(*ast.BasicLit)
	if !isLiteral {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil && literal.Kind == token.STRING
}

// stringsIn returns the elements of the lists of strings in node, and the keys of the maps of labels.
func stringsIn(node ast.Node) (all []string) {
	ast.Inspect(node, func(node ast.Node) bool {
		list, isList := node.(*ast.CompositeLit)
		if !isList {
			return true
		}
		kind := ""
		switch of := list.Type.(type) {
		case *ast.ArrayType:
			if element, ok := of.Elt.(*ast.Ident); ok {
				kind = element.Name
			}
		case *ast.SelectorExpr:
			kind = of.Sel.Name
		}
		if kind != "string" && kind != "Labels" {
			return true
		}
		for _, element := range list.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Key
			}
			if text, ok := textOf(element); ok {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// TestLabelsOfMetrics: no metric has a label that the Prometheus operator adds to the series of a Pod. It would rename
// ours. The labels of every metric are known.
func TestLabelsOfMetrics(t *testing.T) {
	targets := []string{"namespace", "pod", "service", "container", "endpoint", "job", "instance", "node"}
	labels := labelsOfMetrics(t)
	if diff := cmp.Diff(metrics(t), slices.Sorted(maps.Keys(labels))); diff != "" {
		t.Errorf("metrics (-names +with labels):\n%s", diff)
	}
	for name, own := range labels {
		for _, label := range own {
			if slices.Contains(targets, label) {
				t.Errorf("%s: label %s is that of a scraped Pod: choose another name", name, label)
			}
		}
	}
	for name, want := range map[string][]string{
		"kedify_backend_requests_total":     {"backend", "httpscaledobject", "object_namespace"},
		"kedify_build_info":                 {"component", "version"},
		"kedify_scaler_calls_total":         {"code", "method"},
		"kedify_status_fleet_ready_proxies": {"fleet"},
		"kedify_status_unacked_objects":     nil,
		"kedify_xds_nacks_total":            {"type"},
		"kedify_xds_rejected_resources":     {"type"},
	} {
		if diff := cmp.Diff(want, labels[name]); diff != "" {
			t.Errorf("labels of %s (-want +got): the parser is wrong:\n%s", name, diff)
		}
	}
}

// TestStatesOfAlertsHaveTheLabelsOfTheMetrics: the states with which tools/promrules evaluates alerts and dashboards
// consist of series that the programs have, with the label of the scraped Pod.
func TestStatesOfAlertsHaveTheLabelsOfTheMetrics(t *testing.T) {
	type state struct{ Series map[string]any }
	var states struct {
		Steady        map[string]any
		Firing, Quiet []state
	}
	if err := yaml.Unmarshal([]byte(text(t, "tools/promrules/testdata/alerts.yaml")), &states); err != nil {
		t.Fatal(err)
	}
	labels := labelsOfMetrics(t)
	for _, state := range slices.Concat([]state{{states.Steady}}, states.Firing, states.Quiet) {
		for series := range state.Series {
			name, selector, _ := strings.Cut(series, "{")
			want := []string{"pod"}
			if base, isBucket := strings.CutSuffix(name, "_bucket"); isBucket {
				name, want = base, append(want, "le")
			}
			own, exists := labels[name]
			if !exists {
				t.Errorf("%s: there is no such metric", series)
				continue
			}
			want = append(want, own...)
			var got []string
			for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(selector, -1) {
				got = append(got, label[1])
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: labels (-want +got):\n%s", series, diff)
			}
		}
	}
}
