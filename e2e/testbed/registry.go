package testbed

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// RegistrySocket returns the socket of the registry of an embedded cluster, which serves the images of every registry.
func RegistrySocket(cluster *provider.Cluster) string {
	return filepath.Join(filepath.Dir(cluster.Kubeconfig), "registry.sock")
}

// TagImages tags this checkout's images in the registry of an embedded cluster, like a release or a push. The registry
// serves them under the name of every registry, such as registry.example.com/kedify/argo-rollouts-plugin/agent.
func TagImages(t *testing.T, cluster *provider.Cluster, tag string) {
	t.Helper()
	socket := RegistrySocket(cluster)
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	for _, image := range config.Images() {
		manifests := "http://registry/v2/kedify/" + image + "/manifests/"
		kind, manifest := exchange(t, client, http.MethodGet, manifests+"dev", "", nil)
		exchange(t, client, http.MethodPut, manifests+tag, kind, manifest)
	}
}

// exchange sends a request to a registry, which must succeed.
func exchange(t *testing.T, client *http.Client, method, address, kind string, body []byte) (string, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %v", method, address, response.Status, err)
	}
	return response.Header.Get("Content-Type"), content
}
