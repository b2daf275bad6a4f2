package residue

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
)

// commandTimeout bounds one command of the cluster.
const commandTimeout = 5 * time.Minute

// environment says where the binary under test and its caches are.
type environment struct{ binary, cache, repo string }

func fromEnvironment(t *testing.T) environment {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: run `make test` as root, or `make test-unit` without")
	}
	e := environment{os.Getenv("LOCALCLUSTER_BIN"), os.Getenv("LOCALCLUSTER_CACHE"), os.Getenv("LOCALCLUSTER_REPO")}
	if e.binary == "" || e.cache == "" || e.repo == "" {
		t.Fatal("LOCALCLUSTER_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run this test by `make test-cluster`")
	}
	// A copy of the part of the repository that a cluster needs has a path, and
	// so a cluster, of its own: a user's running cluster is left alone.
	own := t.TempDir()
	for _, dir := range []string{"localcluster", "config", "examples"} {
		if err := os.CopyFS(filepath.Join(own, dir), os.DirFS(filepath.Join(e.repo, dir))); err != nil {
			t.Fatalf("copy %s: %v", dir, err)
		}
	}
	e.repo = own
	t.Cleanup(func() { _, _ = e.run(t, "down") })
	return e
}

// run runs one command of the cluster and returns what it printed.
func (e environment) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, e.binary, append([]string{"--cache", e.cache, "--repo", e.repo}, args...)...)
	// A file, not a pipe: the supervisor outlives the command and would keep a
	// pipe open.
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	command.Stdout, command.Stderr = printed, printed
	runErr := command.Run()
	raw, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), runErr
}

func (e environment) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	printed, err := e.run(t, args...)
	if err != nil {
		t.Fatalf("localcluster %s: %v\n%s", strings.Join(args, " "), err, printed)
	}
	return printed
}

func (e environment) status(t *testing.T) host.Status {
	t.Helper()
	var status host.Status
	if err := json.Unmarshal([]byte(e.mustRun(t, "status", "-o", "json")), &status); err != nil {
		t.Fatalf("read the status: %v", err)
	}
	return status
}

// supervisor returns the process that holds the cluster's lock.
func (e environment) supervisor(t *testing.T) int {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(e.cache, "clusters", "*", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		plan, err := os.ReadFile(filepath.Join(filepath.Dir(lock), host.PlanFile))
		if err != nil || !strings.Contains(string(plan), e.repo) {
			continue
		}
		holder, err := host.LockHolder(filepath.Dir(lock))
		if err != nil {
			t.Fatal(err)
		}
		return holder
	}
	t.Fatal("no supervisor is found")
	return 0
}

func take(t *testing.T) Snapshot {
	t.Helper()
	s, err := Take(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustMatch compares the machine with what it was. Processes that were told to
// end need a moment until the kernel has taken them away.
func mustMatch(t *testing.T, before Snapshot) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		diff := cmp.Diff(before, take(t))
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cluster left something behind (-before +after):\n%s", diff)
		}
		<-ticker.C
	}
}

func TestNothingIsLeft(t *testing.T) {
	e := fromEnvironment(t)
	before := take(t)

	t.Run("after cluster-down", func(t *testing.T) {
		e.mustRun(t, "up", "--bare")
		if cmp.Equal(before, take(t)) {
			t.Fatal("a running cluster does not show in the snapshot: the comparison is blind")
		}
		e.mustRun(t, "down")
		mustMatch(t, before)
		if got := e.status(t).State; got != host.PhaseStopped {
			t.Errorf("state is %q, want %q", got, host.PhaseStopped)
		}
		e.mustRun(t, "down") // twice is fine
	})

	t.Run("after kill -9 of the supervisor", func(t *testing.T) {
		e.mustRun(t, "up", "--bare")
		kill(t, e.supervisor(t))
		if got := e.status(t).State; got != host.PhaseBroken {
			t.Errorf("state is %q, want %q", got, host.PhaseBroken)
		}
		e.mustRun(t, "down")
		mustMatch(t, before)
	})

	t.Run("up after kill -9 recovers", func(t *testing.T) {
		e.mustRun(t, "up", "--bare")
		kill(t, e.supervisor(t))
		e.mustRun(t, "up", "--bare")
		if got := e.status(t).State; got != host.PhaseRunning {
			t.Errorf("state is %q, want %q", got, host.PhaseRunning)
		}
		e.mustRun(t, "down")
		mustMatch(t, before)
	})

	t.Run("after kill -9 of the supervisor in the middle of a start", func(t *testing.T) {
		started := make(chan struct{})
		go func() {
			defer close(started)
			if _, err := e.run(t, "up", "--bare"); err == nil {
				t.Error("a start whose supervisor was killed claims success")
			}
		}()
		awaitStarting(t, e)
		kill(t, e.supervisor(t))
		<-started
		e.mustRun(t, "down")
		mustMatch(t, before)
	})

	t.Run("after a start that failed half way", func(t *testing.T) {
		printed, err := e.run(t, "up", "--bare", "--extra-arg", "kube-scheduler=--no-such-flag")
		if err == nil {
			t.Fatal("a component with an unknown flag did not fail the start")
		}
		for _, want := range []string{"kube-scheduler", "unknown flag: --no-such-flag", "last lines of"} {
			if !strings.Contains(printed, want) {
				t.Errorf("the failure does not say %q:\n%s", want, printed)
			}
		}
		e.mustRun(t, "down")
		mustMatch(t, before)
	})
}

// awaitStarting returns as soon as the supervisor has begun its work.
func awaitStarting(t *testing.T, e environment) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 500 {
		if e.status(t).State == host.PhaseStarting {
			return
		}
		<-ticker.C
	}
	t.Fatal("the start never began")
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the supervisor: %v", err)
	}
}
