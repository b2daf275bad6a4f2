package testbed

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Example returns copies of the canary guide's files with another host. An Ingress controller uses only one of two
// Ingresses with the same host.
func Example(t *testing.T, repo, host string, names ...string) []string {
	t.Helper()
	var files []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(repo, "examples", "argo-rollouts-canary", name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte(Host), []byte(host)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// ReplaceInFile replaces a text that a file contains exactly once.
func ReplaceInFile(t *testing.T, file, before, after string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(before)); n != 1 {
		t.Fatalf("%s contains %q %d times, want once", filepath.Base(file), before, n)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte(before), []byte(after), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}
