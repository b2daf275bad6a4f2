package install

import (
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// page contains the blocks of the tested pages.
type page struct{ pages.Pages }

// readPage reads the tested pages in docs/how-to.
func readPage(t *testing.T, repo string) page {
	t.Helper()
	read, err := pages.Read(filepath.Join(repo, "docs", "how-to"), "install.md", "install-plugins.md", "uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	return page{read}
}

// block returns the n-th block of a language below a heading, which must exist.
func (p page) block(t *testing.T, heading, language string, n int) string {
	t.Helper()
	return testbed.Block(t, p.Pages, heading, language, n)
}
