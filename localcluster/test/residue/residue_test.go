package residue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// defaultPatience is the limit of every wait without TEST_PATIENCE.
const defaultPatience = 10 * time.Minute

// patience is the limit of every wait: the value of the environment variable TEST_PATIENCE, such as 5m, and at least
// two minutes. Less would measure the machine.
func patience() time.Duration {
	set, err := time.ParseDuration(os.Getenv("TEST_PATIENCE"))
	if err != nil {
		return defaultPatience
	}
	return max(set, 2*time.Minute)
}

// environment contains the paths of the binary under test and of its caches.
type environment struct{ binary, cache, repo string }

func fromEnvironment(t *testing.T) environment {
	t.Helper()
	e := environment{os.Getenv("LOCALCLUSTER_BIN"), os.Getenv("LOCALCLUSTER_CACHE"), os.Getenv("LOCALCLUSTER_REPO")}
	// A copy of those files of the repository that a cluster needs has a path, and so a cluster, of its own. A user's
	// running cluster is not touched.
	copied := t.TempDir()
	for _, dir := range []string{"localcluster", "config", "examples"} {
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(filepath.Join(e.repo, dir))); err != nil {
			t.Fatalf("copy %s: %v", dir, err)
		}
	}
	e.repo = copied
	t.Cleanup(func() { _, _ = e.run(t, "down") })
	return e
}

// run runs one command of the cluster and returns its output.
func (e environment) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience())
	defer cancel()
	command := exec.CommandContext(ctx, e.binary, append([]string{"--cache", e.cache, "--repo", e.repo}, args...)...)
	// A file, not a pipe: the supervisor outlives the command and would keep a pipe open.
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

// killSupervisor kills the process that holds the cluster's lock.
func (e environment) killSupervisor(t *testing.T) {
	t.Helper()
	holder, err := host.LockHolder(e.runDirectory())
	if err != nil || holder == 0 {
		t.Fatalf("no supervisor is found: %v", err)
	}
	if !kill(t, holder) {
		t.Fatal("the supervisor ended by itself")
	}
}

func takeSnapshot(t *testing.T, settings cluster.Settings) Snapshot {
	t.Helper()
	s, err := Take(disk(), settings)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requireMatch compares the machine with its former state. The kernel needs a moment to remove processes that received
// a signal.
func requireMatch(t *testing.T, before Snapshot, settings cluster.Settings) {
	t.Helper()
	diff := ""
	await(t, 200*time.Millisecond, func() bool {
		after := takeSnapshot(t, settings)
		diff = cmp.Diff(before.restrictedTo(after), after.restrictedTo(before))
		return diff == ""
	}, func() string { return "the cluster left something behind (-before +after):\n" + diff })
}

func TestNothingIsLeft(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T, environment)
	}{
		{"after cluster-down", afterDown},
		{"after kill -9 of the supervisor", afterKill},
		{"up after kill -9 recovers", recovers},
		{"after kill -9 of each process of the launcher at ten moments of a start", afterKillInStart},
		{"after a start that failed half way", afterFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := fromEnvironment(t)
			before := takeSnapshot(t, e.cluster())
			tt.run(t, e)
			requireMatch(t, before, e.cluster())
			if got := e.status(t).State; got != host.PhaseStopped {
				t.Errorf("state is %q, want %q", got, host.PhaseStopped)
			}
			e.mustBeOurs(t)
		})
	}
}

func afterDown(t *testing.T, e environment) {
	t.Helper()
	before := takeSnapshot(t, e.cluster())
	e.mustRun(t, "up", "--bare")
	running := takeSnapshot(t, e.cluster())
	for _, kind := range []string{"processes", "cgroups"} {
		if cmp.Equal(before[kind], running[kind]) {
			t.Errorf("a running cluster does not show in the %s: the comparison is blind", kind)
		}
	}
	for _, cgroup := range running["cgroups"] {
		if strings.HasPrefix(cgroup, "a process is in") {
			t.Errorf("a cgroup that is not the cluster's: %s", cgroup)
		}
	}
	// Other than processes and cgroups, a running cluster adds nothing to the host, either.
	for _, kind := range []string{"mounts", "links", "firewall", "files", "sysctls"} {
		if diff := cmp.Diff(before[kind], running[kind]); diff != "" {
			t.Errorf("the host's %s differ while a cluster runs (-before +now):\n%s", kind, diff)
		}
	}
	e.mustRun(t, "down")
	e.mustRun(t, "down") // twice is allowed
}

func afterKill(t *testing.T, e environment) {
	t.Helper()
	e.mustRun(t, "up", "--bare")
	e.killSupervisor(t)
	if got := e.status(t).State; got != host.PhaseBroken {
		t.Errorf("state is %q, want %q", got, host.PhaseBroken)
	}
	e.mustRun(t, "down")
}

func recovers(t *testing.T, e environment) {
	t.Helper()
	e.mustRun(t, "up", "--bare")
	e.killSupervisor(t)
	e.mustRun(t, "up", "--bare")
	if got := e.status(t).State; got != host.PhaseRunning {
		t.Errorf("state is %q, want %q", got, host.PhaseRunning)
	}
	e.mustRun(t, "down")
}

// latestStarts is how often a process is to be killed at the first moment of a start. On a busy machine, the start may
// end first.
const latestStarts = 5

// afterKillInStart kills one process of the launcher after another, each at a later moment of a start: before any
// component is ready, after the first, and so on. The next command cleans up after each of them, without a prompt.
func afterKillInStart(t *testing.T, e environment) {
	t.Helper()
	launcher := []string{"inside supervise", "inside init", "inside run", "up --bare"}
	for moment := range 10 {
		victim := launcher[moment%len(launcher)]
		steps := moment
		for starts := 1; !e.killInStart(t, victim, steps); starts++ {
			t.Logf("the start ended before %s was killed after %d steps: once more", victim, steps)
			e.mustRun(t, "down")
			if starts > moment+latestStarts {
				t.Fatalf("%s was never killed during a start", victim)
			}
			steps = max(steps-1, 0)
		}
		if got := e.status(t).State; victim != "up --bare" && got != host.PhaseBroken {
			t.Errorf("%s was killed after %d steps, and the state is %q, want %q", victim, steps, got, host.PhaseBroken)
		}
		if moment < 9 {
			e.mustRun(t, "down")
			continue
		}
		e.mustRun(t, "up", "--bare") // the last time without cleaning up first
		e.mustRun(t, "down")
	}
}

// killInStart starts a cluster and kills a process of the launcher after the given number of start steps. It returns
// false if the start ended first. A start that succeeds without a ready cluster fails the test.
func (e environment) killInStart(t *testing.T, victim string, steps int) bool {
	t.Helper()
	others := processesOf(victim) // of an ending cluster, or of another checkout
	started, ended := error(nil), make(chan struct{})
	go func() {
		defer close(ended)
		_, started = e.run(t, "up", "--bare")
	}()
	pid := e.find(t, victim, steps, others, ended)
	wasKilled := pid != 0 && kill(t, pid)
	<-ended
	if started != nil {
		return wasKilled
	}
	// A killed start never produces a ready cluster.
	if progress := e.progress(); !strings.Contains(progress, `"state":"`+string(node.Ready)+`"`) {
		t.Errorf("%s was killed after %d steps, and the start claims success:\n%s", victim, steps, progress)
	}
	return false
}

func afterFailure(t *testing.T, e environment) {
	t.Helper()
	printed, err := e.run(t, "up", "--bare", "--extra-arg", "kube-scheduler=--no-such-flag")
	if err == nil {
		t.Fatal("a component with an unknown flag did not fail the start")
	}
	for _, want := range []string{"kube-scheduler", "unknown flag: --no-such-flag", "last lines of", "the logs are in"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the failure does not say %q:\n%s", want, printed)
		}
	}
	e.mustRun(t, "down")
}

// mustBeOurs checks a cluster that root started for a user, as sudo does: no file of root's is left in the user's
// cache. Clusters of other checkouts may run meanwhile, with root's files.
func (e environment) mustBeOurs(t *testing.T) {
	t.Helper()
	stat := func(path string) uint32 {
		var s unix.Stat_t
		if err := unix.Lstat(path, &s); err != nil {
			t.Fatal(err)
		}
		return s.Uid
	}
	owner := stat(e.cache)
	clusters := filepath.Dir(e.runDirectory())
	if got := stat(clusters); got != owner {
		t.Errorf("%s belongs to user %d, the cache to %d", clusters, got, owner)
	}
	err := filepath.WalkDir(e.runDirectory(), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && stat(path) != owner {
			t.Errorf("%s belongs to user %d, the cache to %d", path, stat(path), owner)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// leftCluster is a cluster of which only a cgroup exists.
func leftCluster() cluster.Settings { return cluster.Settings{Name: "left"} }

// TestResidueIsReported leaves something of each kind behind.
func TestResidueIsReported(t *testing.T) {
	before := takeSnapshot(t, leftCluster())
	t.Run("left", func(t *testing.T) {
		createResidue(t)
		after := takeSnapshot(t, leftCluster())
		for _, kind := range []string{"processes", "mounts", "links", "files", "cgroups"} {
			if cmp.Equal(before[kind], after[kind]) {
				t.Errorf("what is left does not show in the %s", kind)
			}
		}
	})
	requireMatch(t, before, leftCluster())
}

// createResidue creates a process, a folder with a mount, network devices and a cgroup, and removes them with the
// test.
func createResidue(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	process := exec.CommandContext(t.Context(), "sleep", "60")
	must(process.Start())
	t.Cleanup(func() { _ = process.Wait() })
	folder := filepath.Join("/opt", "left")
	must(os.MkdirAll(folder, 0o755))
	t.Cleanup(func() { must(os.Remove(folder)) })
	must(unix.Mount("tmpfs", folder, "tmpfs", 0, ""))
	t.Cleanup(func() { must(unix.Unmount(folder, 0)) })
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "left"}, PeerName: "behind"}
	must(netlink.LinkAdd(cable))
	t.Cleanup(func() { must(netlink.LinkDel(cable)) })
	cgroup := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(cgroup, "pids")); err == nil {
		cgroup = filepath.Join(cgroup, "pids")
	}
	cgroup = filepath.Join(cgroup, leftCluster().Cgroup())
	must(os.Mkdir(cgroup, 0o755))
	t.Cleanup(func() { must(os.Remove(cgroup)) })
}

// find returns the process of the launcher that runs a command, except others, after the given number of start steps.
// It returns 0 if the start ends first.
func (e environment) find(t *testing.T, command string, steps int, others []int, ended <-chan struct{}) (pid int) {
	t.Helper()
	await(t, 10*time.Millisecond, func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		if strings.Count(e.progress(), "\n") < steps {
			return false
		}
		found := slices.DeleteFunc(processesOf(command), func(pid int) bool { return slices.Contains(others, pid) })
		if len(found) > 0 {
			pid = found[len(found)-1]
		}
		return pid != 0
	}, func() string { return fmt.Sprintf("the start has not come %d steps far:\n%s", steps, e.progress()) })
	return pid
}

// progress returns the supervisor's record of a start.
func (e environment) progress() string {
	raw, _ := os.ReadFile(filepath.Join(e.runDirectory(), host.ProgressFile))
	return string(raw)
}

// await calls ready until it returns true. It fails the test with the reason if that takes longer than patience.
func await(t *testing.T, pause time.Duration, ready func() bool, reason func() string) {
	t.Helper()
	limit := time.NewTimer(patience())
	defer limit.Stop()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !ready() {
		select {
		case <-limit.C:
			t.Fatal(reason())
		case <-ticker.C:
		}
	}
}

// processesOf returns the processes of launchers that run a command.
func processesOf(command string) []int {
	var found []int
	_ = eachProcess(func(pid string) {
		raw, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		line := strings.ReplaceAll(string(raw), "\x00", " ")
		program, _, _ := strings.Cut(line, " ")
		isCluster := filepath.Base(program) == "localcluster" || program == "/proc/self/exe"
		if isCluster && strings.Contains(line, " "+command+" ") {
			number, _ := strconv.Atoi(pid)
			found = append(found, number)
		}
	})
	return found
}

// cluster is the name of the cluster of these tests.
func (e environment) cluster() cluster.Settings {
	return cluster.Settings{Name: cluster.NameOf(e.repo, "")}
}

// runDirectory is the run directory of these tests' cluster, which need not exist.
func (e environment) runDirectory() string {
	return filepath.Join(e.cache, "clusters", e.cluster().Name)
}

// kill kills a process and returns when the kernel has released its resources. That is when its last thread has ended:
// its first thread may be a zombie before. It returns false if the process had already ended.
func kill(t *testing.T, pid int) bool {
	t.Helper()
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatalf("open process %d: %v", pid, err)
	}
	defer unix.Close(handle)
	switch err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return false
	case err != nil:
		t.Fatalf("kill process %d: %v", pid, err)
	}
	await(t, time.Millisecond, func() bool {
		// The handle is readable once all threads have ended (pidfd_open(2)).
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(time.Second.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatalf("wait for the end of process %d: %v", pid, err)
		}
		return n > 0
	}, func() string { return fmt.Sprintf("process %d outlives SIGKILL", pid) })
	return true
}

// TestForeignCgroups checks which cgroups of a process are reported: a process that ends is at the root for a moment.
func TestForeignCgroups(t *testing.T) {
	all := []string{"9:name=systemd:/", "4:memory:/", "4:memory:/job/1", "4:memory:/kubelet/left/pod", "0::/elsewhere"}
	want := []string{"0::/elsewhere"}
	if diff := cmp.Diff(want, foreignCgroups(all, []string{"4:memory:/job/1"}, "kubelet/left")); diff != "" {
		t.Errorf("cgroups that show (-want +got):\n%s", diff)
	}
}
