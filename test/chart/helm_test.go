package chart

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/test/kit/helmcli"
)

const (
	// root is the path of the repository's root.
	root = "../.."
	// chart is the folder of the chart.
	chart = root + "/charts/kedify-http"
	// kubernetes is the version of Kubernetes that the charts are rendered for.
	kubernetes = "1.34.0"
)

var update = flag.Bool("update", false, "write the golden files, and the generated part of the chart's README")

// helm runs helm without a cluster, and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	return helmcli.Run(t.Context(), home, filepath.Join(home, "none"), args...)
}

// render returns the manifests of a release in a namespace. args are values and other arguments of helm template.
func render(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	text, err := helm(t, append([]string{
		"template", "kedify-http", chart, "--namespace", namespace, "--kube-version", kubernetes,
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// objects returns the objects of a manifest, by their kind, namespace and name.
func objects(t *testing.T, name, text string) map[string]map[string]any {
	t.Helper()
	all, err := manifests.Decode(name, []byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, object := range all {
		if _, isDuplicate := found[object.String()]; isDuplicate {
			t.Errorf("%s contains %s twice", name, object)
		}
		found[object.String()] = object.Content
	}
	return found
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
