package install

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/helmcli"
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

// serveCharts makes a repository of charts from the folder $INSTALL_CHART, and puts Helm into the path of the commands.
func (w *environment) serveCharts(t *testing.T) {
	t.Helper()
	binary := os.Getenv(helmcli.Variable)
	if binary == "" {
		t.Fatalf("%s is not set: run this test by `make test-install`", helmcli.Variable)
	}
	if err := os.Symlink(binary, filepath.Join(w.folder, "bin", "helm")); err != nil {
		t.Fatal(err)
	}
	w.runScript(t, `helm package "$INSTALL_CHART" --destination charts
helm repo index charts`)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(w.folder, "charts"))))
	t.Cleanup(server.Close)
	w.charts = server.URL
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
