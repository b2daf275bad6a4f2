package install

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
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
	for _, name := range plugins() {
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

// plugins are the names of the plugins' binaries.
func plugins() []string {
	return []string{"rollouts-plugin-kedify-linux-amd64", "gatewayapi-plugin-linux-amd64"}
}

// downloads counts the downloads of each plugin from the server in the cluster so far.
func (w *environment) downloads(t *testing.T) map[string]int {
	t.Helper()
	requests := w.runScript(t, "kubectl -n plugin-server logs deployment/releases --tail=-1")
	counts := map[string]int{}
	for _, name := range plugins() {
		counts[name] = strings.Count(requests, "GET /"+name+"\n")
	}
	return counts
}

// restartContainer ends the container of the controller, whose Pod remains, and checks that the kubelet starts it again
// and that it downloads each plugin once more: nothing is cached.
func (w *environment) restartContainer(t *testing.T) {
	t.Helper()
	const find = "kubectl -n argo-rollouts get pods -l app.kubernetes.io/name=argo-rollouts -o jsonpath="
	const restarts = find + "'{.items[0].status.containerStatuses[0].restartCount} " +
		"{.items[0].status.containerStatuses[0].ready}'"
	pod := w.runScript(t, find+"'{.items[*].metadata.name}'")
	count, _, ok := strings.Cut(w.runScript(t, restarts), " true")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || strings.Contains(pod, " ") {
		t.Fatalf("the Pods of the controller are %q, its container has restarted %q times", pod, count)
	}
	node, err := inside.Open(w.Node)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := node.FindInPod("rollouts-controller", pod)
	if err != nil {
		t.Fatal(err)
	}
	want := w.downloads(t)
	for name := range want {
		want[name]++
	}
	if _, _, err := controller.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until(t, "the controller's container to restart", restarts, strconv.Itoa(n+1)+" true")
	var got map[string]int
	await.Described(t, "the restarted controller to download each plugin once", func() bool {
		got = w.downloads(t)
		return maps.Equal(got, want)
	}, func() string { return fmt.Sprintf("%v, want %v", got, want) })
	t.Logf("downloads after restart %d of the container in Pod %s: %v", n+1, pod, got)
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
