package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldens returns the namespaces of the releases in testdata, by the names of their folders. Each folder has the
// values, and the objects and notes that they render.
func goldens() map[string]string {
	return map[string]string{
		"minimal":             "keda",
		"ha":                  "keda",
		"permissive":          "keda",
		"restricted-network":  "http-canary",
		"no-autowire":         "keda",
		"without-autowire":    "keda",
		"without-proxies":     "keda",
		"existing-crd":        "kedify",
		"air-gapped-registry": "keda",
		"one-namespace":       "shop",
		"telemetry":           "keda",
	}
}

// TestGolden compares the rendered objects and notes with the golden files.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, namespace := range goldens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("testdata", name)
			values := filepath.Join(folder, "values.yaml")
			got := shortened(render(t, namespace, "--values", values))
			objects(t, name, got)
			compare(t, filepath.Join(folder, "rendered.yaml"), got)
			compare(t, filepath.Join(folder, "notes.txt"), notes(t, namespace, values))
		})
	}
}

// compare compares a text with a golden file. With -update it writes the file.
func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(golden))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("if the change is intended, run make chart and read its diff (-want +got):\n%s", diff)
	}
}

// notes returns what helm install prints last, for a cluster without KEDA.
func notes(t *testing.T, namespace, values string) string {
	t.Helper()
	output, err := helm(t, "install", "kedify-http", chart, "--namespace", namespace, "--dry-run=client", "--values", values)
	if err != nil {
		t.Fatal(err)
	}
	_, text, hasNotes := strings.Cut(output, "\nNOTES:\n")
	if !hasNotes {
		t.Fatalf("helm install prints no notes:\n%s", output)
	}
	return text
}

// shortened removes the schema of the CRD and the dashboards, which TestChartEqualsConfig and TestDashboards compare.
func shortened(rendered string) string {
	documents := strings.Split(rendered, "\n---\n")
	for i, document := range documents {
		switch {
		case strings.Contains(document, "\nkind: CustomResourceDefinition\n"):
			documents[i] = regexp.MustCompile(`(?ms)^spec:\n.*`).ReplaceAllString(document, "spec: {} # that of config/crd")
		case strings.Contains(document, "\n  name: kedify-http-dashboard-"):
			documents[i] = regexp.MustCompile(`(?ms)^data:\n.*`).ReplaceAllString(document, "data: {} # that of config/grafana")
		}
	}
	return strings.Join(documents, "\n---\n")
}

// TestFolders: each folder of testdata has a golden test.
func TestFolders(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, ok := goldens()[entry.Name()]; !ok {
			t.Errorf("testdata/%s is not in goldens", entry.Name())
		}
	}
}

// TestLint: helm lint finds nothing, with any of the values.
func TestLint(t *testing.T) {
	t.Parallel()
	for name, namespace := range goldens() {
		values := filepath.Join("testdata", name, "values.yaml")
		if _, err := helm(t, "lint", chart, "--strict", "--namespace", namespace, "--kube-version", kubernetes,
			"--values", values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAsDependency: a chart that has this one as a dependency can set its condition, and global values.
func TestAsDependency(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.MkdirAll(filepath.Join(parent, "charts"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(parent, "charts", "kedify-http"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: parent, version: 1.0.0, dependencies: [{name: kedify-http, version: 0.1.0, " +
			"condition: kedify-http.enabled}]}",
		"values.yaml": "{global: {team: web}, kedify-http: {enabled: true, interceptor: {replicas: 3}}}",
	} {
		if err := os.WriteFile(filepath.Join(parent, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rendered, err := helm(t, "template", "web", parent, "--namespace", "keda", "--kube-version", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	deployment := objects(t, "parent", rendered)["Deployment keda/keda-add-ons-http-interceptor"]
	spec, _ := deployment["spec"].(map[string]any)
	if got := spec["replicas"]; got != float64(3) && got != int64(3) {
		t.Errorf("replicas of the interceptor: %v, want 3", got)
	}
}

// TestInvalidValues: an invalid value is an error that names it.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  string
		want []string
	}{
		{"interceptor.replica=2", []string{"/interceptor", "'replica'"}},
		{"interceptors.replicas=2", []string{"'interceptors'"}},
		{"interceptor.replicas=two", []string{"/interceptor/replicas"}},
		{"scaler.replicas=0", []string{"/scaler/replicas"}},
		{"agent.autowire=maybe", []string{"/agent/autowire"}},
		{"image.pullPolicy=Sometimes", []string{"/image/pullPolicy"}},
		{"image.tag=a b", []string{"/image/tag"}},
		{"image.registry=", []string{"/image/registry"}},
		{"image.pullSecrets[0]=registry", []string{"/image/pullSecrets/0"}},
		{"watchNamespaces[0]=Shop", []string{"/watchNamespaces/0"}},
		{"watchNamespaces=shop", []string{"/watchNamespaces"}},
		{"agent.webhook.failurePolicy=Never", []string{"/agent/webhook/failurePolicy"}},
		{"agent.scalerAddress=scaler", []string{"/agent/scalerAddress"}},
		{"agent.admissionPolicies.proxyImagePrefixes[0]=a' + '", []string{"/proxyImagePrefixes/0"}},
		{"argoRollouts.kedifyHTTP.sha256=abc", []string{"/argoRollouts/kedifyHTTP/sha256"}},
		{"argoRollouts.kedifyHTTP.location=/plugin", []string{"/argoRollouts/kedifyHTTP/location"}},
		{"agent.admissionPolicies.proxyImagePrefixes[0]=registry.example.com/", []string{
			"proxyImagePrefixes: no prefix matches the image of the proxies, envoyproxy/envoy:", "set proxies.image",
		}},
		{"agent.admissionPolicies.proxyImagePrefixes[0]=mirror/,proxies.image=other/envoy:v1", []string{
			"proxyImagePrefixes: no prefix matches the image of the proxies, other/envoy:v1",
		}},
		{"proxies.replicas=1000", []string{"/proxies/replicas"}},
		{"proxies.resources.limit.memory=1Gi", []string{"/proxies/resources", "'limit'"}},
		{"proxies.resources.claims[0].name=gpu", []string{"/proxies/resources", "'claims'"}},
		{"proxies.resources.limits.ephemeral-storage=1Gi", []string{"/proxies/resources/limits", "'ephemeral-storage'"}},
		{"proxies.resources.requests.cpu=-1", []string{"/proxies/resources/requests/cpu"}},
		{"proxies.resources.requests.memory=64MB", []string{"/proxies/resources/requests/memory"}},
		{"proxies.maxReplicas=1", []string{"proxies.maxReplicas: 1 does not exceed proxies.replicas, 1"}},
		{"tests.host=app.example.com", []string{"tests.host", "set tests.url"}},
		{"interceptor.accessLog=false", []string{"/interceptor", "'accessLog'"}},
		{"tracing.endpoint=otel:4317", []string{"/tracing/endpoint"}},
		{"tracing.endpoint=http://otel:4318/v1/traces", []string{"/tracing/endpoint"}},
		{"tracing.endpoint=https://otel:4317", []string{"tracing.endpoint: a collector with https", "set tracing.caConfigMap"}},
		{"tracing.sampling=10", []string{"/tracing/sampling"}},
		{"tracing.sampling=1.5", []string{"/tracing/sampling"}},
		{"tracing.caConfigMap=CA", []string{"/tracing/caConfigMap"}},
		{"accessLog.format=jsn", []string{"/accessLog/format"}},
		{"accessLog.fields.a=b", []string{"/accessLog/fields/a"}},
		{"accessLog.fields.a b=%DURATION%", []string{"/accessLog/fields", "'a b' not allowed"}},
		{"accessLog.format=text,accessLog.fields.a=%DURATION%", []string{"accessLog.fields: the format is text"}},
		{"accessLog.filter[0]=status>500", []string{"/accessLog/filter/0"}},
		{"accessLog.filter[0]=any-flag,accessLog.sampling=100", []string{"accessLog.sampling: at 100", "less than 100"}},
		{"accessLog.sampling=101", []string{"/accessLog/sampling"}},
		{"accessLog.sampling=0.00001", []string{"/accessLog/sampling"}},
		{"logs.level=trace", []string{"/logs/level"}},
		{"logs.format=yaml", []string{"/logs/format"}},
		{"interceptor.goMemoryLimit=1Gi", []string{"/interceptor/goMemoryLimit"}},
		{"pods.labels.a=true", []string{"/pods/labels/a"}},
		// The chart sets these.
		{`pods.labels.app\.kubernetes\.io/name=web`, []string{"pods.labels: the chart sets label app.kubernetes.io/name"}},
		{`pods.labels.helm\.sh/chart=web`, []string{"pods.labels: the chart sets label helm.sh/chart"}},
	} {
		_, err := helm(t, "template", "kedify-http", chart, "--kube-version", kubernetes, "--set", test.set)
		if err == nil {
			t.Errorf("%s is accepted", test.set)
			continue
		}
		if !slices.ContainsFunc(test.want, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
			continue
		}
		t.Errorf("%s: %v, want %q", test.set, err, test.want)
	}
}

// TestLogs: the interceptor, the scaler and the agent have the level and the format of their logs, before their other
// flags, which have precedence.
func TestLogs(t *testing.T) {
	t.Parallel()
	rendered := render(t, "keda", "--set", "logs.level=debug,logs.format=text,scaler.extraArgs[0]=--log-level=warn")
	for flag, want := range map[string]int{"--log-level=debug": 3, "--log-format=text": 3} {
		if got := strings.Count(rendered, flag); got != want {
			t.Errorf("%s: %d times, want %d", flag, got, want)
		}
	}
	if strings.Index(rendered, "--log-level=warn") < strings.LastIndex(rendered, "--log-format=text") {
		t.Error("the scaler's own flag is not the last one")
	}
}

// TestProxyImagePrefixes: a prefix that matches the image of config/kedify-proxy or that of proxies.image is accepted,
// and any prefix without proxies of the agent.
func TestProxyImagePrefixes(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(`(?m)^ +image: ((\S+:)\S+)$`).FindStringSubmatch(
		read(t, "config/kedify-proxy/deployment.yaml"))
	if image == nil {
		t.Fatal("config/kedify-proxy/deployment.yaml has no image with a tag")
	}
	const prefix = "agent.admissionPolicies.proxyImagePrefixes"
	for _, set := range []string{
		prefix + "[0]=" + image[1], prefix + "[0]=" + image[2], prefix + "[0]=mirror/," + prefix + "[1]=" + image[2],
		prefix + "[0]=mirror/,proxies.image=mirror/envoy:v1", prefix + "[0]=mirror/,agent.installProxies=false",
	} {
		policy := objects(t, set, render(t, "keda", "--set", set))["ValidatingAdmissionPolicy kedify-http-agent-proxies"]
		if policy == nil {
			t.Errorf("%s: the policy does not exist", set)
		}
	}
}

// TestOldKubernetes: the chart rejects versions of Kubernetes that lack what it installs.
func TestOldKubernetes(t *testing.T) {
	t.Parallel()
	args := []string{"template", "kedify-http", chart, "--kube-version"}
	if _, err := helm(t, append(args, "1.29.9")...); err == nil || !strings.Contains(err.Error(), "1.30") {
		t.Errorf("1.29.9: %v, want an error that names 1.30", err)
	}
	if _, err := helm(t, append(args, "v1.30.4-eks-a737599")...); err != nil {
		t.Errorf("a version of a provider is rejected: %v", err)
	}
}
