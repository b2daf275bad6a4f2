package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestInstallKeepsOtherPlugins: the output of --print can be applied, and keeps other entries and other keys of the
// ConfigMap.
func TestInstallKeepsOtherPlugins(t *testing.T) {
	const path = "/api/v1/namespaces/argo-rollouts/configmaps/argo-rollouts-config"
	// Use the field manager that applies the output: it would remove fields that the output lacks.
	apply(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: argo-rollouts-config, namespace: argo-rollouts, labels: {team: platform}}
data: {metricProviderPlugins: "[]", trafficRouterPlugins: "# of the platform team\n- name: somebody/else\n  location: https://example.com/else\n"}`)
	defer func() {
		err := apiserver.ApplyFiles(t.Context(), shared.admin, "", "testdata/plugins.yaml",
			manifests+"argo-rollouts/rbac.yaml")
		if err != nil {
			t.Error(err)
		}
	}()
	sum := strings.Repeat("3", 64)
	checksums := filepath.Join(t.TempDir(), "checksums.txt")
	if err := os.WriteFile(checksums, []byte(sum+"  rollouts-plugin-kedify-linux-amd64\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"install", "--router=kedify/http", "--from=https://example.com/v1/", "--checksums=" + checksums}
	install := func(flag string) result { return run(t, apiserver.AdminToken, append(args, flag)...) }

	// The existing roles were applied from the manifests, not by this command.
	if got := install("--dry-run"); got.code != 1 || !strings.Contains(got.err,
		"ClusterRole argo-rollouts-kedify-http already exists") {
		t.Errorf("before: %+v", got)
	}
	printed := install("--print")
	if printed.code != 0 {
		t.Fatalf("%+v", printed)
	}
	apply(t, printed.out)
	var live struct {
		Metadata struct{ Labels map[string]string }
		Data     map[string]string
	}
	text, err := yaml.Marshal(read(t, path))
	if err == nil {
		err = yaml.Unmarshal(text, &live)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"metricProviderPlugins": "[]", "trafficRouterPlugins": `# of the platform team
- name: somebody/else
  location: https://example.com/else
- name: "kedify/http"
  location: "https://example.com/v1/rollouts-plugin-kedify-linux-amd64"
  sha256: "` + sum + `"
`}
	if diff := cmp.Diff(want, live.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if live.Metadata.Labels["team"] != "platform" {
		t.Errorf("the labels are %v", live.Metadata.Labels)
	}
	// After the output was applied, the roles have the label of this command.
	if got := install("--dry-run"); got.code != 0 || strings.Contains(got.out, "created") ||
		!strings.Contains(got.out, "ConfigMap argo-rollouts/argo-rollouts-config unchanged (server dry run)\n") {
		t.Errorf("after: %+v", got)
	}
	for _, test := range []struct {
		args    string
		code    int
		message string
	}{
		{"install", 2, "specify --from"},
		{"install --print --dry-run", 2, "--print and --dry-run are mutually exclusive"},
		{"install --from=https://127.0.0.1:1/v1", 1, "pass it with --checksums"},
		{"install --components=proxy", 2, "--proxy-namespace require each other"},
		{"install --proxy-namespace=shop", 2, "--proxy-namespace require each other"},
		{"install --components=gateway", 2, "use one of interceptor, proxy, scaler, agent"},
		{"install --components=scaler --from=https://example.com", 2, "specify --image-tag"},
		{"install --init-container", 2, "specify --image-tag"},
		{"install --init-container --image-tag=1 --print", 2, "--init-container cannot be combined"},
		{
			"install --router=other --from=https://example.com --checksums=" + checksums, 1,
			"use argoproj-labs/gatewayAPI or kedify/http",
		},
		{"install --print --checksums=" + checksums, 2, "specify --from"},
		{
			"install --print --from=https://example.com --checksums=" + checksums, 1,
			"no line for gatewayapi-plugin-linux-amd64",
		},
		{"install --print --from=https://example.com --checksums=/nowhere", 1, "no such file"},
	} {
		if got := run(t, apiserver.AdminToken, strings.Fields(test.args)...); got.code != test.code ||
			!strings.Contains(got.err, test.message) {
			t.Errorf("%s: %+v, want %d and %q", test.args, got, test.code, test.message)
		}
	}
}
