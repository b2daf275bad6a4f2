package walk_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/walk"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git",
		append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	git(t, repo, "init", "-q")
	write(t, filepath.Join(repo, "kept"), "committed")
	write(t, filepath.Join(repo, ".gitignore"), "ignored\n")
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-qm", "first")
	return repo
}

func clone(t *testing.T, bundle walk.Bundle) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "clone", "-q", bundle.File, ".")
	return dir
}

func TestABundleIsACleanClone(t *testing.T) {
	repo := repository(t)
	bundle, err := walk.MakeBundle(t.Context(), repo, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	got := clone(t, bundle)
	if want := git(t, repo, "rev-parse", "HEAD"); git(t, got, "rev-parse", "HEAD") != want || bundle.Commit != want ||
		bundle.Dirty {
		t.Errorf("the clone has %s, the bundle %+v, want %s", git(t, got, "rev-parse", "HEAD"), bundle, want)
	}
}

func TestUncommittedChangesAreRejected(t *testing.T) {
	repo := repository(t)
	write(t, filepath.Join(repo, "new"), "not committed")
	if _, err := walk.MakeBundle(t.Context(), repo, t.TempDir(), false); !errors.Is(err, walk.ErrUncommitted) {
		t.Errorf("error is %v, want %v", err, walk.ErrUncommitted)
	}
}

func TestADirtyBundleHasAllAndTouchesNothing(t *testing.T) {
	repo := repository(t)
	write(t, filepath.Join(repo, "kept"), "changed")
	write(t, filepath.Join(repo, "new"), "not committed")
	write(t, filepath.Join(repo, "ignored"), "private")
	before := git(t, repo, "status", "--porcelain") + git(t, repo, "count-objects", "-v")
	bundle, err := walk.MakeBundle(t.Context(), repo, t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	got := clone(t, bundle)
	for name, want := range map[string]string{"kept": "changed", "new": "not committed"} {
		if raw, err := os.ReadFile(filepath.Join(got, name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q (%v), want %q", name, raw, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(got, "ignored")); err == nil {
		t.Error("the clone contains an ignored file")
	}
	if after := git(t, repo, "status", "--porcelain") + git(t, repo, "count-objects", "-v"); after != before {
		t.Errorf("the repository changed: %s, before %s", after, before)
	}
}
