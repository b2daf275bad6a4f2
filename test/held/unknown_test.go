package held

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// TestUnknownProxyLogs starts a proxy that is no endpoint of Service kedify-proxy. It logs the text, and the interceptor
// the message, by which docs/reference/findings.md recognizes this problem.
func TestUnknownProxyLogs(t *testing.T) {
	s := newEnvironment(t, never)
	replica := s.replica(1)
	slice := "/apis/discovery.k8s.io/v1/namespaces/" + coldstart.Namespace + "/endpointslices/" + resolve.ProxyService
	if err := apiserver.Delete(t.Context(), s.Admin, slice); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.StartProxy(ctx) }() // it is never ready
	await.True(t, "the log of the proxy", func() bool {
		return contains(t, filepath.Join(s.Folder, "envoy*", "*.log"), "connection termination")
	})
	await.True(t, "the log of the interceptor", func() bool {
		log, err := replica.Log()
		return err == nil && strings.Contains(string(log), "proxy rejected") &&
			strings.Contains(string(log), netspace.Address().String())
	})
	cancel()
	if err := await.Receive(t, "the end of the proxy", ended); err == nil {
		t.Error("an unknown proxy was ready")
	}
}

// contains reports whether one of the files of a pattern contains text.
func contains(t *testing.T, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Clean(file))
		if err == nil && strings.Contains(string(content), text) {
			return true
		}
	}
	return false
}
