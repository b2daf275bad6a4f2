package chart

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// comparison compares the objects that values render with files of config.
type comparison struct {
	// set are values as name=value.
	set []string
	// files are paths in config. Patterns are allowed.
	files []string
}

// always are the files of the objects of any values below.
func always() []string {
	return []string{
		"crd/*.yaml", "interceptor/rbac.yaml", "interceptor/tls.yaml", "interceptor/pods.yaml",
		"interceptor/deployment.yaml", "interceptor/services.yaml", "scaler/rbac.yaml", "scaler/deployment.yaml", "scaler/service.yaml",
		"agent/rbac.yaml", "agent/admission.yaml", "agent/deployment.yaml", "agent/service.yaml", "agent/webhook.yaml",
	}
}

// comparisons returns the comparisons by name.
func comparisons() map[string]comparison {
	const kedify, gateway = "argo-rollouts/", "argo-rollouts/gatewayapi/"
	return map[string]comparison{
		"default": {files: append(always(), kedify+"rbac.yaml")},
		"NetworkPolicies": {
			set: []string{"networkPolicies.enabled=true"},
			files: append(always(), kedify+"rbac.yaml", "network-policies/agent.yaml", "network-policies/interceptor.yaml",
				"network-policies/scaler.yaml"),
		},
		"PodMonitors": {
			set:   []string{"podMonitors.enabled=true"},
			files: append(always(), kedify+"rbac.yaml", "prometheus/podmonitors.yaml"),
		},
		"plugin kedify/http": {
			set:   []string{"argoRollouts.registerPlugins=true"},
			files: append(always(), kedify+"rbac.yaml", kedify+"config.yaml"),
		},
		"plugin argoproj-labs/gatewayAPI": {
			set: []string{
				"argoRollouts.registerPlugins=true", "argoRollouts.gatewayAPI.enabled=true",
				"argoRollouts.kedifyHTTP.enabled=false",
			},
			files: append(always(), gateway+"rbac.yaml", gateway+"config.yaml"),
		},
	}
}

// notCompared are the other files of config, with the reason why no object of the chart equals theirs.
func notCompared() map[string]string {
	const patch, tenant = "a chart cannot patch another owner's Deployment", "belongs to each namespace with proxies"
	return map[string]string{
		"kustomization.yaml":                             "lists files",
		"*/kustomization.yaml":                           "lists files",
		"interceptor/namespace.yaml":                     "helm install --create-namespace creates the namespace",
		"kedify-proxy/*.yaml":                            tenant + ", where the agent installs it",
		"network-policies/kedify-proxy.yaml":             tenant,
		"argo-rollouts/deployment-patch.yaml":            patch,
		"argo-rollouts/gatewayapi/deployment-patch.yaml": patch,
		"prometheus/rules.yaml":                          "is not an object: TestAlerts compares it",
	}
}

// TestChartEqualsConfig: the chart renders the objects of config, except the differences that withoutRelease removes.
func TestChartEqualsConfig(t *testing.T) {
	t.Parallel()
	for name, c := range comparisons() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--skip-tests"}
			for _, value := range c.set {
				args = append(args, "--set", value)
			}
			want := map[string]map[string]any{}
			for _, file := range configFiles(t, c.files...) {
				maps.Copy(want, objects(t, file, read(t, "config/"+file)))
			}
			got := objects(t, "the chart", render(t, "keda", args...))
			for _, object := range got {
				withoutRelease(t, &unstructured.Unstructured{Object: object})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("change the templates in charts/kedify-http, or the manifests (-config +chart):\n%s", diff)
			}
		})
	}
}

// withoutRelease removes the intended differences from config. Each must be there.
func withoutRelease(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	name := object.GetKind() + " " + object.GetName()
	labels := object.GetLabels()
	// Labels that identify the release.
	release := map[string]string{
		"app.kubernetes.io/instance": "kedify-http", "app.kubernetes.io/version": "0.1.0",
		"app.kubernetes.io/part-of": "kedify-http", "app.kubernetes.io/managed-by": "Helm",
		"helm.sh/chart": "kedify-http-0.1.0",
	}
	if object.GetName() == "argo-rollouts-config" {
		// It belongs to the Argo Rollouts controller, and has the labels of that.
		release = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	}
	if object.GetKind() == "Deployment" {
		// The manifests have it, too: kubectl http-canary doctor identifies the components by it.
		delete(release, "app.kubernetes.io/part-of")
	}
	removeAll(t, name+": label", labels, release)
	if len(labels) == 0 {
		labels = nil
	}
	object.SetLabels(labels)
	switch object.GetKind() {
	case "CustomResourceDefinition", "ConfigMap":
		// Without the CRD, all HTTPScaledObjects would be deleted. The ConfigMap may have entries of others.
		annotations := object.GetAnnotations()
		removeAll(t, name+": annotation", annotations, map[string]string{"helm.sh/resource-policy": "keep"})
		if len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
	case "Deployment":
		withoutReleasePod(t, name, object)
	}
}

// withoutReleasePod removes the intended differences from the Pod template of a Deployment.
func withoutReleasePod(t *testing.T, name string, object *unstructured.Unstructured) {
	t.Helper()
	field := []string{"spec", "template", "metadata", "labels"}
	labels, _, err := unstructured.NestedStringMap(object.Object, field...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// The label of the release that its upgrades do not change.
	removeAll(t, name+": label of the Pods", labels, map[string]string{"app.kubernetes.io/instance": "kedify-http"})
	if err := unstructured.SetNestedStringMap(object.Object, labels, field...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	field = []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(object.Object, field...)
	if err != nil || len(containers) != 1 {
		t.Fatalf("%s: containers %v, %v", name, containers, err)
	}
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	// The chart installs a release, and config the images of the embedded cluster.
	repository, isRelease := strings.CutSuffix(image, ":0.1.0")
	if !isRelease {
		t.Errorf("%s: image %s, want the tag of appVersion", name, image)
	}
	container["image"] = repository + ":dev"
	if err := unstructured.SetNestedSlice(object.Object, containers, field...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// removeAll removes entries from a map, which must contain them.
func removeAll(t *testing.T, name string, from, entries map[string]string) {
	t.Helper()
	for key, want := range entries {
		if got, ok := from[key]; !ok || got != want {
			t.Errorf("%s %s: %q, want %q", name, key, got, want)
		}
		delete(from, key)
	}
}

// configFiles returns the files of config that match patterns, each of which must match.
func configFiles(t *testing.T, patterns ...string) []string {
	t.Helper()
	var files []string
	for _, pattern := range patterns {
		matches, err := fs.Glob(os.DirFS(filepath.Join(root, "config")), pattern)
		if err != nil || len(matches) == 0 {
			t.Fatalf("config/%s: %v, %v", pattern, matches, err)
		}
		files = append(files, matches...)
	}
	return files
}

// TestEveryManifestIsCompared: each manifest of config is in a comparison, or there is a reason why not.
func TestEveryManifestIsCompared(t *testing.T) {
	t.Parallel()
	compared := configFiles(t, slices.Collect(maps.Keys(notCompared()))...)
	for _, c := range comparisons() {
		compared = append(compared, configFiles(t, c.files...)...)
	}
	err := fs.WalkDir(os.DirFS(filepath.Join(root, "config")), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".yaml" {
			return err
		}
		if !slices.Contains(compared, file) {
			t.Errorf("config/%s is not compared with the chart: add it to comparisons or to notCompared", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlerts: the PrometheusRule has the rules of config.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var want map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "config/prometheus/rules.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	rendered := objects(t, "the chart", render(t, "keda", "--set", "prometheusRule.enabled=true"))
	if diff := cmp.Diff(any(want), rendered["PrometheusRule keda/kedify-http"]["spec"]); diff != "" {
		t.Errorf("run make chart (-config +chart):\n%s", diff)
	}
}

// TestDashboards: the ConfigMaps have the dashboards of config.
func TestDashboards(t *testing.T) {
	t.Parallel()
	rendered := objects(t, "the chart", render(t, "keda", "--set", "dashboards.enabled=true"))
	for _, file := range configFiles(t, "grafana/*.json") {
		name := strings.TrimSuffix(path.Base(file), ".json")
		object := rendered["ConfigMap keda/kedify-http-dashboard-"+name]
		data, _ := object["data"].(map[string]any)
		if diff := cmp.Diff(map[string]any{path.Base(file): read(t, "config/"+file)}, data); diff != "" {
			t.Errorf("run make chart (-config +chart):\n%s", diff)
		}
		metadata, _ := object["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		if labels["grafana_dashboard"] != "1" {
			t.Errorf("%s: labels %v, want grafana_dashboard", file, labels)
		}
	}
}

// TestNamespace: in another namespace the chart renders the same objects, except the flags for programs whose default
// is namespace keda.
func TestNamespace(t *testing.T) {
	t.Parallel()
	const other = "other-namespace"
	set := []string{
		"--set", "argoRollouts.registerPlugins=true", "--set", "networkPolicies.enabled=true",
		"--set", "prometheusRule.enabled=true", "--set", "argoRollouts.gatewayAPI.enabled=true",
		"--set", "podMonitors.enabled=true", "--set", "dashboards.enabled=true",
	}
	want, got := render(t, "keda", set...), render(t, other, set...)
	flags := regexp.MustCompile(`\n +args:\n +- --scaler-address=keda-add-ons-http-external-scaler\.` + other + `:9090|` +
		`\n +args: \["--interceptor-namespace=` + other + `"\]`)
	if found := flags.FindAllString(got, -1); len(found) != 2 {
		t.Errorf("flags with the namespace: %q, want --scaler-address and --interceptor-namespace", found)
	}
	if diff := cmp.Diff(want, strings.ReplaceAll(flags.ReplaceAllString(got, ""), other, "keda")); diff != "" {
		t.Errorf("(-keda +%s):\n%s", other, diff)
	}
}
