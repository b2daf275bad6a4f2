package install

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestByPlugin goes the kubectl plugin's way alone, from a cluster that has Argo Rollouts and KEDA to a wake from zero
// and a measured 20 %, and back. It takes this checkout's programs in place of a snapshot, which takes minutes to make:
// they are of the same source, and the images that the cluster has are, too.
func TestByPlugin(t *testing.T) {
	w := launch(t, "traefik", "keda")
	w.buildRelease(t)
	w.prepare(t)
	if err := os.Symlink(filepath.Join(w.repo, "config"), filepath.Join(w.folder, "config")); err != nil {
		t.Fatal(err)
	}
	step(t, "what the cluster came with is uninstalled", w.uninstallAll)
	step(t, "a server with the programs", w.serve)
	step(t, "the controller trusts the server", w.trustCA)
	step(t, "by the kubectl plugin: from Argo Rollouts and KEDA to a wake from zero and a measured 20 %",
		w.installByPlugin)
	step(t, "all of it is uninstalled by the kubectl plugin", w.uninstallByPlugin)
}

// trustCA has the controller trust the server, and waits until it does.
func (w *environment) trustCA(t *testing.T) {
	t.Helper()
	w.trustServer(t)
	w.runScript(t, "kubectl -n argo-rollouts rollout status deployment/argo-rollouts --timeout=120s")
}

// buildRelease makes what the kubectl plugin reads of a release: the programs for this machine's kind of node, and
// their checksums.
func (w *environment) buildRelease(t *testing.T) {
	t.Helper()
	w.dist, w.release = t.TempDir(), "dev"
	var sums strings.Builder
	for _, program := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin", "kubectl-http_canary"} {
		file := program + "-linux-amd64"
		build(t, w.repo, "./cmd/"+program, filepath.Join(w.dist, file))
		content, err := os.ReadFile(filepath.Join(w.dist, file))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), file)
	}
	if err := os.WriteFile(filepath.Join(w.dist, "checksums.txt"), []byte(sums.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
