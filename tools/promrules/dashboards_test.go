package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// variables are values of the variables of the dashboards, for an object of the steady state.
func variables() map[string]string {
	return map[string]string{"$__rate_interval": "5m", "$namespace": "shop", "$httpscaledobject": "app"}
}

// withValues replaces variables. None may be left.
func withValues(t *testing.T, expression string) string {
	t.Helper()
	expanded, err := expand(expression, variables())
	if err != nil {
		t.Error(err)
	}
	return expanded
}

// boards returns the files of the dashboards.
func boards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../config/grafana/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("dashboards: %v, %v, want 2", files, err)
	}
	return files
}

// TestDashboards: Prometheus evaluates each query of the dashboards, and each has a result in the steady state. Legends
// use labels of the results.
func TestDashboards(t *testing.T) {
	steady := decode[states](t, "testdata/alerts.yaml").Steady
	data := load(t, steady, nil)
	engine := startEngine(t)
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, file := range boards(t) {
		board, err := readDashboard(file)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[int]bool{}
		for _, panel := range board.Panels {
			if ids[panel.ID] || panel.Description == "" || panel.GridPos.X+panel.GridPos.W > 24 || len(panel.Targets) == 0 {
				t.Errorf("%s: panel %s: no id of its own, no description, no queries, or too wide", file, panel.Title)
			}
			ids[panel.ID] = true
			for _, target := range panel.Targets {
				result := evaluate(t, engine, data, withValues(t, target.Expr), minutes)
				if len(result) == 0 {
					t.Errorf("%s: panel %s: no result: %s", file, panel.Title, target.Expr)
				}
				for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					for _, sample := range result {
						if sample.Metric.Get(label[1]) == "" {
							t.Errorf("%s: panel %s: the result has no label %s: %s", file, panel.Title, label[1], sample.Metric)
						}
					}
				}
			}
		}
		for _, each := range board.Templating.List {
			if each.Type != "query" {
				continue
			}
			selected, label, err := each.selector()
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			found := false
			for _, sample := range evaluate(t, engine, data, withValues(t, selected), minutes) {
				found = found || sample.Metric.Get(label) == variables()["$"+each.Name]
			}
			if !found {
				t.Errorf("%s: variable %s has no value %s", file, each.Name, variables()["$"+each.Name])
			}
		}
	}
}

// TestDocumentedQueries: Prometheus evaluates the queries of docs/how-to/monitoring.md, and each has a result in the
// steady state.
func TestDocumentedQueries(t *testing.T) {
	raw, err := os.ReadFile("../../docs/how-to/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	data := load(t, decode[states](t, "testdata/alerts.yaml").Steady, nil)
	engine := startEngine(t)
	_, section, _ := strings.Cut(string(raw), "\n## Useful queries\n")
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `(.+)` \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) < 5 {
		t.Fatalf("%d queries: the expression is wrong", len(rows))
	}
	for _, row := range rows {
		if len(evaluate(t, engine, data, row[1], minutes)) == 0 {
			t.Errorf("no result: %s", row[1])
		}
	}
}

// TestQueryOfUpgrade: the query of docs/how-to/upgrade.md matches the requests to a Service with the labels of this
// version and with the former ones.
func TestQueryOfUpgrade(t *testing.T) {
	raw, err := os.ReadFile("../../docs/how-to/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile("`(kedify_[a-z_]+{[^`]+)`").FindAllStringSubmatch(string(raw), -1)
	if len(queries) != 1 {
		t.Fatalf("%d queries, want 1", len(queries))
	}
	engine := startEngine(t)
	for _, labels := range []string{
		`object_namespace="shop",httpscaledobject="app",backend="app-canary"`,
		`namespace="shop",httpscaledobject="app",service="app-canary"`,
	} {
		data := load(t, nil, series{"kedify_backend_requests_total{" + labels + "}": "0+1x120"})
		if len(evaluate(t, engine, data, queries[0][1], minutes)) != 1 {
			t.Errorf("no result with the labels %s: %s", labels, queries[0][1])
		}
	}
}
