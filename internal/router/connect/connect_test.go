package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/router/connect"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://api.test:8080"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// outsideOfAPod makes sure that neither this machine's Pod nor its kubeconfig is found.
func outsideOfAPod(t *testing.T) (file string) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigIsFound(t *testing.T) {
	file := outsideOfAPod(t)
	tests := map[string]struct{ flag, environment string }{
		"by name":          {flag: file},
		"by $KUBECONFIG":   {environment: file},
		"the name goes on": {flag: file, environment: "/does/not/exist"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			config, err := connect.Config(test.flag, "router/v1")
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != "http://api.test:8080" || config.UserAgent != "router/v1" {
				t.Errorf("Config is for %s as %s", config.Host, config.UserAgent)
			}
			if config.QPS >= 0 {
				t.Errorf("requests are limited to %v a second", config.QPS)
			}
		})
	}
}

func TestConfigSaysWhereItLooked(t *testing.T) {
	outsideOfAPod(t)
	for flag, want := range map[string]string{"": "neither $KUBECONFIG nor ~/.kube/config", "/does/not/exist": `kubeconfig "/does/not/exist"`} {
		if _, err := connect.Config(flag, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Config(%q): %v, want an error with %q", flag, err, want)
		}
	}
}

func TestConfigInAPodWithoutATokenIsAnError(t *testing.T) {
	outsideOfAPod(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := connect.Config("", ""); err == nil || !strings.Contains(err.Error(), "ServiceAccount") {
		t.Errorf("error is %v, want one about the ServiceAccount", err)
	}
}
