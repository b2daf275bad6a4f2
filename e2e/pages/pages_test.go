package pages

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

const document = "# Install\n\n```sh\n# a comment\nVERSION=1\nIMAGE_TAG=1\n\nhelm install\nsed s/a/b/ file | kubectl apply -f -\n```\n\n" +
	"```text\ndone\n```\n\n## Uninstall\n\n1. First:\n\n   ```sh\n   helm uninstall\n     indented\n   ```\n\n" +
	"```sh\nkubectl delete\n```\n"

func TestBlocks(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "page.md"), []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := Read(folder, "page.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		heading, language string
		n                 int
		want              string
	}{
		{"Install", "text", 0, "done\n"},
		{"Uninstall", "sh", 0, "helm uninstall\n  indented\n"},
		{"Uninstall", "sh", 1, "kubectl delete\n"},
	} {
		if got, err := read.Block(test.heading, test.language, test.n); err != nil || got != test.want {
			t.Errorf("%v: %q, %v", test, got, err)
		}
	}
	if _, err := read.Block("Install", "text", 1); !errors.Is(err, ErrNoBlock) {
		t.Errorf("a block that does not exist: %v", err)
	}
	commands, err := read.Block("Install", "sh", 0)
	if n := Commands(commands); err != nil || n != 2 {
		t.Errorf("%d commands in %q, %v; want 2", n, commands, err)
	}
	if _, err := Read(folder, "other.md"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a page that does not exist: %v", err)
	}
}
