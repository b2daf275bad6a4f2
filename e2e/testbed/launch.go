package testbed

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// Launch starts an embedded cluster with what is wished for beyond the canary's
// own parts, and takes it down when the test ends. It returns the folder of the
// project, too. A cluster that runs already is used, and goes on, if $E2E_SHARED
// says so; otherwise it is nobody's to break.
func Launch(t *testing.T, wishes provider.Spec) (cluster *provider.Cluster, repo string) {
	t.Helper()
	l := newLaunch(t, wishes)
	return l.up(t), l.repo
}

// launcher is a cluster that a test has asked for.
type launcher struct {
	provider provider.Provider
	wishes   provider.Spec
	repo     string
}

// IsShared says whether other suites may use the cluster at the same time.
func IsShared() bool { return os.Getenv("E2E_SHARED") != "" }

// newLaunch finds the programs by what the Makefile says.
func newLaunch(t *testing.T, wishes provider.Spec) launcher {
	t.Helper()
	binary, cache, repo := os.Getenv("LOCALCLUSTER_BIN"), os.Getenv("LOCALCLUSTER_CACHE"), os.Getenv("LOCALCLUSTER_REPO")
	if binary == "" || cache == "" || repo == "" {
		t.Fatal("LOCALCLUSTER_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run this test by its make target, " +
			"see `make help`")
	}
	local := provider.LocalCluster{Path: binary, Repo: repo,
		Terminal: provider.Terminal{Err: outputFile(t)}, Patience: CommandTimeout()}
	status, err := local.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.State == provider.Running && !IsShared() {
		t.Fatal("a cluster of this checkout runs already, and this test would break it: run `make cluster-down` first, or " +
			"set E2E_SHARED=1")
	}
	kubectlCache := t.TempDir()
	from, err := provider.New(provider.NameEmbedded, provider.Options{
		Local: local, Environ: os.Environ(), Cache: func(*provider.Cluster) string { return kubectlCache },
		Report: func(line string) { t.Log(line) }, Command: CommandTimeout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := from.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	wishes.Keep = true // it ends with the test, not with this process
	return launcher{provider: from, wishes: wishes, repo: repo}
}

// outputFile is where the command localcluster puts what it says: a file, not a pipe,
// because the supervisor outlives the command and would keep a pipe open. It is
// shown when the test fails.
func outputFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "localcluster"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, err := os.ReadFile(file.Name())
			t.Logf("localcluster said (%v):\n%s", err, text)
		}
		_ = file.Close() // all of it is on disk
	})
	return file
}

// up makes the cluster ready.
func (l launcher) up(t *testing.T) *provider.Cluster {
	t.Helper()
	cluster, err := l.provider.Up(t.Context(), l.wishes)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}
