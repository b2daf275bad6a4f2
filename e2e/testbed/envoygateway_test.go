package testbed_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// CountClusterNotFound counts only responses that Envoy itself logged as cluster_not_found, and only for the host.
func TestClusterGaps(t *testing.T) {
	logs := t.TempDir()
	folder := filepath.Join(logs, "pods", "envoy-gateway-system_envoy-x", "envoy")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	const log = `{":authority":"shop.test","response_code":503,"response_code_details":"cluster_not_found","response_flags":"NC"}
{":authority":"other.test","response_code":503,"response_code_details":"cluster_not_found","response_flags":"NC"}
{":authority":"shop.test","response_code":503,"response_code_details":"upstream_reset_before_response_started","response_flags":"UF"}
{":authority":"shop.test","response_code":200,"response_code_details":"via_upstream","response_flags":"-"}
`
	if err := os.WriteFile(filepath.Join(folder, "0.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"shop.test": 1, "other.test": 1, "third.test": 0} {
		if got := testbed.CountClusterNotFound(logs, host); got != want {
			t.Errorf("%s: %d gaps, want %d", host, got, want)
		}
	}
}
