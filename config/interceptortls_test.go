package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTLSForProxiesIsOptional: the manifests of the components neither enable TLS for proxies nor grant permissions for
// it. config/interceptor-tls grants them.
func TestTLSForProxiesIsOptional(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	words := []string{"tokenreviews", `"kedify-http-interceptor-tls"`, "tls-secret", "TLS_SECRET"}
	for _, folder := range []string{"agent", "interceptor", "kedify-proxy", "scaler"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", folder, files, err)
		}
		for _, file := range files {
			for _, word := range words {
				if strings.Contains(read(file), word) {
					t.Errorf("%s contains %s", file, word)
				}
			}
		}
	}
	var list struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(read("interceptor-tls/kustomization.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	var granted strings.Builder
	for _, file := range list.Resources {
		granted.WriteString(read(filepath.Join("interceptor-tls", file)))
	}
	for _, word := range words[:2] {
		if !strings.Contains(granted.String(), word) {
			t.Errorf("config/interceptor-tls does not grant %s", word)
		}
	}
}
