package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// metrics returns the names of the metrics in the code. A file creates those of one subsystem, by fields Name or by a
// function of its own with the name as first argument.
func metrics(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	tree := os.DirFS(filepath.Join(root, "internal"))
	err := fs.WalkDir(tree, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := fs.ReadFile(tree, path)
		if err != nil || !strings.Contains(string(raw), `client_golang/prometheus"`) {
			return err
		}
		prefix := "kedify_"
		subsystem := regexp.MustCompile(`(?:Subsystem: |subsystem = "kedify", )"(\w+)"`).FindSubmatch(raw)
		if subsystem != nil {
			prefix += string(subsystem[1]) + "_"
		}
		for _, name := range regexp.MustCompile(`(?:\bName: |\b(?:counter|gauge)\(\s*)"([a-z_]+)"`).FindAllSubmatch(raw, -1) {
			names[prefix+string(name[1])] = true
		}
		if described := regexp.MustCompile(`NewDesc\("(kedify_\w+_)"`).FindSubmatch(raw); described != nil {
			for _, name := range regexp.MustCompile(`\bdesc\("([a-z_]+)"`).FindAllSubmatch(raw, -1) {
				names[string(described[1])+string(name[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(names))
}

// TestEveryMetricIsDocumented: the page lists exactly the metrics of the code, and no page names another metric.
func TestEveryMetricIsDocumented(t *testing.T) {
	_, table, _ := strings.Cut(text(t, "docs/reference/metrics.md"), "<!-- metrics -->")
	table, _, _ = strings.Cut(table, "<!-- end of metrics -->")
	var shown []string
	rows := regexp.MustCompile("(?m)^\\| `(kedify_\\w+)` \\| (?:counter|gauge|histogram) \\|")
	for _, row := range rows.FindAllStringSubmatch(table, -1) {
		shown = append(shown, row[1])
	}
	slices.Sort(shown)
	names := metrics(t)
	if diff := cmp.Diff(names, shown); diff != "" {
		t.Errorf("metrics (-code +docs/reference/metrics.md):\n%s", diff)
	}
	for path, page := range documents(t) {
		if path == "CHANGELOG.md" {
			continue // It has former names.
		}
		for _, name := range regexp.MustCompile(`\bkedify_[a-z]+_[a-z_]+[a-z]`).FindAllString(page, -1) {
			series := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !slices.Contains(names, name) && !slices.Contains(names, series) {
				t.Errorf("%s names the metric %s, which does not exist", path, name)
			}
		}
	}
}

// TestEveryAlertIsDocumented: the page lists every alert of the rules with its response, and the alert links to that
// row. tools/promrules evaluates their expressions.
func TestEveryAlertIsDocumented(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "config/prometheus/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	var alerts []string
	names := metrics(t)
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
			const page = "https://github.com/kedify/argo-rollouts-plugin/blob/main/docs/reference/metrics.md#"
			if got, want := rule.Annotations["runbook_url"], page+strings.ToLower(rule.Alert); got != want {
				t.Errorf("%s has the runbook_url %q, want %q", rule.Alert, got, want)
			}
			named := regexp.MustCompile(`\bkedify_\w+`).FindAllString(rule.Expr, -1)
			if len(named) == 0 {
				t.Errorf("%s uses no metric of this project", rule.Alert)
			}
			for _, name := range named {
				if !slices.Contains(names, name) {
					t.Errorf("%s uses %s, which does not exist", rule.Alert, name)
				}
			}
		}
	}
	_, table, _ := strings.Cut(text(t, "docs/reference/metrics.md"), "<!-- alerts -->")
	var shown []string
	rows := regexp.MustCompile("(?m)^\\| <a id=\"(\\w+)\"></a>`(Kedify\\w+)` \\| [^|]+ \\| [^|]+ \\|$")
	for _, row := range rows.FindAllStringSubmatch(table, -1) {
		if shown = append(shown, row[2]); row[1] != strings.ToLower(row[2]) {
			t.Errorf("%s has the anchor %s", row[2], row[1])
		}
	}
	if diff := cmp.Diff(alerts, shown); diff != "" {
		t.Errorf("alerts (-config/prometheus/rules.yaml +docs/reference/metrics.md):\n%s", diff)
	}
}

// TestMetricsOfDashboardsExist: the dashboards use only metrics of this project.
func TestMetricsOfDashboardsExist(t *testing.T) {
	names := metrics(t)
	files, err := filepath.Glob(filepath.Join(root, "config/grafana/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bkedify_[a-z_]+`).FindAllString(string(content), -1) {
			if !slices.Contains(names, name) && !slices.Contains(names, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s uses %s, which does not exist", file, name)
			}
		}
	}
}

// TestDeploymentsInCommandsExist: commands name Deployments of our manifests, or known ones of other projects.
func TestDeploymentsInCommandsExist(t *testing.T) {
	names := []string{"argo-rollouts", "keda-operator", "traefik", "shop"}
	manifests, err := filepath.Glob(filepath.Join(root, "config/*/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range manifests {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^kind: Deployment\nmetadata:\n  name: (\S+)$`).FindAllSubmatch(raw,
			-1) {
			names = append(names, string(match[1]))
		}
	}
	named := 0
	for path, page := range documents(t) {
		for _, match := range regexp.MustCompile(`kubectl[^\n|]*? deployment[/ ]([a-z][a-z-]+)`).FindAllStringSubmatch(page,
			-1) {
			named++
			if !slices.Contains(names, match[1]) {
				t.Errorf("%s names Deployment %s, which is in no manifest: %s", path, match[1], match[0])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d commands name a Deployment", named)
	}
}
