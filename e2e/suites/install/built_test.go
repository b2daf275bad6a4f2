package install

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestByPlugin tests only the installation with the kubectl plugin. It starts with Argo Rollouts and KEDA, goes to a
// wake from zero and a measured 20 %, and uninstalls. It uses this checkout's programs instead of a snapshot, which
// takes minutes to build. The source is the same, and so are the cluster's images.
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

// trustCA makes the controller trust the server, and waits until it does.
func (w *environment) trustCA(t *testing.T) {
	t.Helper()
	w.trustServer(t)
	w.runScript(t, "kubectl -n argo-rollouts rollout status deployment/argo-rollouts --timeout=120s")
}

// buildRelease builds the files of a release that the kubectl plugin reads: the programs for this machine's
// architecture and their checksums.
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
