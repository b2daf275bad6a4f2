package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestAdoptPrintsValidManifests: the API server accepts the output with the CRDs of KEDA, and adopt itself writes
// nothing.
func TestAdoptPrintsValidManifests(t *testing.T) {
	if err := apiserver.CreateNamespace(t.Context(), shared.admin, "web-of-before"); err != nil {
		t.Fatal(err)
	}
	paths := []string{
		rolloutPath("web-of-before", "web"), "/api/v1/namespaces/web-of-before/services/web",
		"/api/v1/namespaces/web-of-before/services/other",
		"/apis/networking.k8s.io/v1/namespaces/web-of-before/ingresses/web",
		"/apis/autoscaling/v2/namespaces/web-of-before/horizontalpodautoscalers/web-hpa",
	}
	created := []string{
		"/apis/keda.sh/v1alpha1/namespaces/web-of-before/scaledobjects/web",
		"/api/v1/namespaces/web-of-before/services/web-canary",
	}
	t.Cleanup(func() {
		for _, path := range append(paths, created...) {
			if err := shared.admin.Delete().AbsPath(path).Do(context.Background()).Error(); err != nil {
				t.Error(err)
			}
		}
	})
	apply(t, strings.ReplaceAll(readFile(t, "../../internal/cli/adopt/testdata/app.yaml"), "namespace: web",
		"namespace: web-of-before"))
	versions := func() (all []any) {
		for _, path := range paths {
			all = append(all, read(t, path)["metadata"].(map[string]any)["resourceVersion"])
		}
		return all
	}
	before := versions()
	printed := run(t, apiserver.AdminToken, "adopt", "rollout/web", "--namespace=web-of-before")
	if printed.code != 0 || !strings.Contains(printed.out, "\n# +       httpScaledObjectName: web\n") ||
		!strings.Contains(printed.out, "scaledobject.keda.sh/transfer-hpa-ownership: \"true\"\n") {
		t.Fatalf("%+v", printed)
	}
	for i, version := range versions() {
		if version != before[i] {
			t.Errorf("%s was written", paths[i])
		}
	}
	apply(t, printed.out)
	canary := read(t,
		rolloutPath("web-of-before",
			"web"))["spec"].(map[string]any)["strategy"].(map[string]any)["canary"].(map[string]any)
	if canary["canaryService"] != "web-canary" || canary["maxSurge"] == nil || canary["trafficRouting"] == nil {
		t.Errorf("the Rollout has %v", canary)
	}
	for args, want := range map[string]string{
		"adopt web --namespace=web-of-before":     "already configures a router",
		"adopt nothing --namespace=web-of-before": "Rollout not found",
	} {
		if got := run(t, apiserver.AdminToken, strings.Fields(args)...); got.code != 1 ||
			!strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
