package testbed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
)

// Block returns the n-th block of a language below a heading of pages, which must exist.
func Block(t *testing.T, page pages.Pages, heading, language string, n int) string {
	t.Helper()
	text, err := page.Block(heading, language, n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// InFolder returns a script that runs in a user's folder: its folder bin is the first one in PATH, and helm has no
// settings of the machine's user.
func InFolder(folder, script string) string {
	return "cd " + folder + "\nexport PATH=$PWD/bin:$PATH HELM_CACHE_HOME=$PWD/.helm HELM_CONFIG_HOME=$PWD/.helm " +
		"HELM_DATA_HOME=$PWD/.helm\n" + script
}

// CanaryPlugin returns the path of the built kubectl plugin. kubectl finds plugins by file name, in PATH.
func CanaryPlugin() string {
	return filepath.Join(filepath.Dir(os.Getenv("LOCALCLUSTER_BIN")), "kubectl-http_canary")
}
