package cli_test

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestTryAsksForConfirmation: it prints the cluster, and creates nothing without confirmation.
func TestTryAsksForConfirmation(t *testing.T) {
	before := namespaces(t)
	got := run(t, apiserver.AdminToken, "try", "--image=example.com/demo:1")
	if got.code != 1 || !strings.HasPrefix(got.out, "This will create namespace http-canary-try-") ||
		!strings.Contains(got.out, " in context ") || !strings.Contains(got.err, "--yes") {
		t.Errorf("result %+v", got)
	}
	if after := namespaces(t); after != before {
		t.Errorf("there are %d namespaces, and were %d", after, before)
	}
}

// TestTryOnABrokenInstallation: it reports problems that prevent the canary before it creates anything.
func TestTryOnABrokenInstallation(t *testing.T) {
	patch(t, "/api/v1/namespaces/argo-rollouts/configmaps/argo-rollouts-config",
		`data: {trafficRouterPlugins: "- {name: a/b, location: 'https://example.com/x'}"}`)
	defer func() {
		if err := apiserver.ApplyFiles(t.Context(), shared.admin, "", "testdata/plugins.yaml"); err != nil {
			t.Error(err)
		}
	}()
	before := namespaces(t)
	for router, more := range map[string]string{
		"kedify/http":              "--yes",
		"argoproj-labs/gatewayAPI": "--gateway=edge/gate",
	} {
		got := run(t, apiserver.AdminToken, "try", "--image=example.com/demo:1", "--yes", "--router="+router, more)
		if got.code != 3 || !strings.Contains(got.out, "PluginNotRegistered") ||
			!strings.Contains(got.out, "add the entry of "+router) {
			t.Errorf("%s: %+v", router, got)
		}
	}
	if after := namespaces(t); after != before {
		t.Errorf("there are %d namespaces, and were %d", after, before)
	}
}

// namespaces returns the number of namespaces.
func namespaces(t *testing.T) int {
	t.Helper()
	items, _ := read(t, "/api/v1/namespaces")["items"].([]any)
	return len(items)
}
