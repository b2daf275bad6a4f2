package testbed

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
)

// Launch starts an embedded cluster that matches the spec, and stops it when the test ends. It also returns the root
// folder of the repository. If $E2E_SHARED is set, a cluster that already runs is used and keeps running. Otherwise
// such a cluster fails the test, because the test would disturb it.
func Launch(t *testing.T, spec provider.Spec) (cluster *provider.Cluster, repo string) {
	t.Helper()
	l := newLauncher(t, spec)
	return l.up(t), l.repo
}

// launcher starts the cluster of one test.
type launcher struct {
	provider provider.Provider
	spec     provider.Spec
	repo     string
}

// IsShared reports whether other suites may use the cluster at the same time.
func IsShared() bool { return os.Getenv("E2E_SHARED") != "" }

// newLauncher finds the programs by the environment variables that the Makefile sets.
func newLauncher(t *testing.T, spec provider.Spec) launcher {
	t.Helper()
	binary, cache, repo := os.Getenv("LOCALCLUSTER_BIN"), os.Getenv("LOCALCLUSTER_CACHE"), os.Getenv("LOCALCLUSTER_REPO")
	if binary == "" || cache == "" || repo == "" {
		t.Fatal("LOCALCLUSTER_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run this test by its make target, " +
			"see `make help`")
	}
	local := provider.LocalCluster{
		Path: binary, Repo: repo,
		Terminal: provider.Terminal{Err: outputFile(t)}, Patience: CommandTimeout(),
	}
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
	spec.Keep = true // the cluster ends with the test, not with this process
	return launcher{provider: from, spec: spec, repo: repo}
}

// outputFile returns the file for the output of the command localcluster. It is not a pipe, because the supervisor
// outlives the command and would keep the pipe open. The content is logged if the test fails.
func outputFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "localcluster"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, err := os.ReadFile(file.Name())
			t.Logf("localcluster: output (%v):\n%s", err, text)
		}
		_ = file.Close() // all of it is on disk
	})
	return file
}

// up starts or updates the cluster and waits until it is ready.
func (l launcher) up(t *testing.T) *provider.Cluster {
	t.Helper()
	cluster, err := l.provider.Up(t.Context(), l.spec)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}
