package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pins are the expressions of the versions that tests run, by the project on the page and by files that match one of
// several patterns, with commas between them.
func pins() map[string][2]string {
	const components = "localcluster/components/"
	module := func(path string) string { return `(?m)^(?:require)?\s+` + regexp.QuoteMeta(path) + ` v(\S+)` }
	constant := func(name string) string { return name + `\s+= "([^"]+)"` }
	return map[string][2]string{
		"Kubernetes":         {components + "cluster/go.mod," + components + "kubernetes-*/go.mod", module("k8s.io/kubernetes")},
		"Argo Rollouts":      {components + "*/go.mod", module("github.com/argoproj/argo-rollouts")},
		"argo-helm chart":    {".github/workflows/ci.yml", `--branch=argo-rollouts-(\S+)`},
		"KEDA":               {components + "keda*/go.mod", module("github.com/kedacore/keda/v2")},
		"KEDA HTTP add-on":   {components + "*/go.mod", module("github.com/kedacore/http-add-on")},
		"Gateway API":        {components + "gateway-api*/go.mod", module("sigs.k8s.io/gateway-api")},
		"Envoy":              {"localcluster/build/components.go", constant("EnvoyVersion")},
		"Envoy Gateway":      {components + "*/go.mod", module("github.com/envoyproxy/gateway")},
		"Traefik":            {"localcluster/build/components.go", constant("TraefikVersion")},
		"Contour":            {components + "*/go.mod", module("github.com/projectcontour/contour")},
		"Argo CD":            {components + "*/go.mod", module("github.com/argoproj/argo-cd/v3")},
		"Helm":               {"tools/helm/go.mod", module("helm.sh/helm/v4")},
		"Krew":               {"tools/krew/go.mod", module("sigs.k8s.io/krew")},
		"client-go":          {"go.mod", module("k8s.io/client-go")},
		"controller-runtime": {"go.mod", module("sigs.k8s.io/controller-runtime")},
	}
}

// pinned returns the versions of a project in the repository, such as "KEDA 2.19.0".
func pinned(t *testing.T, project string, pin [2]string) (versions []string) {
	t.Helper()
	var files []string
	for pattern := range strings.SplitSeq(pin[0], ",") {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pin[1]).FindAllStringSubmatch(string(raw), -1) {
			versions = append(versions, project+" "+match[1])
		}
	}
	return versions
}

// TestCompatibilityListsWhatTestsRun: the page lists exactly the pinned versions of each project, and stages of CI that
// exist.
func TestCompatibilityListsWhatTestsRun(t *testing.T) {
	_, page, _ := strings.Cut(text(t, "docs/reference/compatibility.md"), "\n## What the tests run\n")
	stages := text(t, "tools/ci/stages.go")
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+\.\d+\.\d+) \| ([^|]+) \| ([^|]+) \|$`)
	code := regexp.MustCompile("`([^`]+)`")
	var listed, want []string
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		listed = append(listed, cells[1]+" "+cells[2])
		for _, stage := range code.FindAllStringSubmatch(cells[3]+cells[4], -1) {
			if !strings.Contains(stages, `Name: "`+stage[1]+`"`) {
				t.Errorf("%s %s: CI has no stage %s", cells[1], cells[2], stage[1])
			}
		}
	}
	// The sentence about the programs.
	linked := regexp.MustCompile(`(?:client-go|controller-runtime) \d+\.\d+\.\d+`)
	listed = append(listed, linked.FindAllString(page, -1)...)
	for project, pin := range pins() {
		want = append(want, pinned(t, project, pin)...)
	}
	slices.Sort(listed)
	slices.Sort(want)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("versions (-pinned +page):\n%s", diff)
	}
}
