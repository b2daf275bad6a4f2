package install

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// serverName is the host of the server in the cluster, serverURL its URL for the controller.
	serverName = "releases.plugin-server.svc"
	serverURL  = "https://" + serverName
)

// sharedFolder returns a folder that the node can read: it is in the run directory of its cluster.
func (w *environment) sharedFolder() string {
	return filepath.Join(filepath.Dir(w.Kubeconfig), "plugin-server")
}

// serve starts a web server in the cluster with the snapshot. A separate CA, ca.crt in the folder, signs its
// certificate.
func (w *environment) serve(t *testing.T) {
	t.Helper()
	shared := w.sharedFolder()
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	build(t, w.repo, "./e2e/suites/install/server", filepath.Join(shared, "server"))
	for _, name := range []string{"rollouts-plugin-kedify-linux-amd64", "gatewayapi-plugin-linux-amd64"} {
		content, err := os.ReadFile(filepath.Join(w.dist, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shared, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.certify(t, shared)
	manifest, err := os.ReadFile("testdata/server.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "server.yaml", strings.ReplaceAll(string(manifest), "SHARED", shared))
	w.runScript(t, "kubectl apply --server-side -f server.yaml\nkubectl -n plugin-server rollout status "+
		"deployment/releases --timeout=5m")
}

// certify creates a CA and the server's certificate.
func (w *environment) certify(t *testing.T, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	w.write(t, "ca.crt", string(public))
	for name, content := range map[string][]byte{
		"tls.crt": public, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		// The server runs as another user.
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tagImages tags the checkout's images in the cluster's registry with the snapshot's version, like a release.
func (w *environment) tagImages(t *testing.T) {
	t.Helper()
	socket := filepath.Join(filepath.Dir(w.Kubeconfig), "registry.sock")
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	for _, image := range config.Images() {
		manifests := "http://registry/v2/kedify/" + image + "/manifests/"
		kind, manifest := exchange(t, client, http.MethodGet, manifests+"dev", "", nil)
		exchange(t, client, http.MethodPut, manifests+w.release, kind, manifest)
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
		t.Fatal(fmt.Sprintf("%s %s: %s", method, address, response.Status), err)
	}
	return response.Header.Get("Content-Type"), content
}
