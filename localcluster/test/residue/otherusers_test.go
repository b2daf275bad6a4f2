package residue

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// simulateOtherUsers simulates other users of the host until the test ends. It constantly creates processes, namespaces
// and cgroups, as containers and logins do, and clusters of other checkouts. None of it may appear in the tests'
// results.
func simulateOtherUsers() (stop func()) {
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			working.Go(func() { simulateOtherUser(n) })
		}
	})
	return func() { close(done); working.Wait() }
}

// simulateOtherUser creates cgroups and another cluster's folder, and runs a process in new namespaces for a moment. A
// failure only reduces the noise.
func simulateOtherUser(n int) {
	name := cluster.NameOf(strconv.Itoa(n), "")
	run := filepath.Join(os.Getenv("LOCALCLUSTER_CACHE"), "clusters", name)
	if os.Mkdir(run, 0o755) == nil {
		defer func() { _ = os.Remove(run) }()
		_ = os.Chown(run, 999, 999) // as some pod's files
	}
	folders, _ := filepath.Glob("/sys/fs/cgroup/*/")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		folders = []string{"/sys/fs/cgroup"}
	}
	for _, folder := range folders {
		for _, group := range []string{"somebody-else-" + strconv.Itoa(n), cluster.Settings{Name: name}.Cgroup()} {
			if group := filepath.Join(folder, group); os.Mkdir(group, 0o755) == nil {
				defer func() { _ = os.Remove(group) }()
			}
		}
	}
	command := exec.CommandContext(context.Background(), "sleep", "1")
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	_ = command.Run()
}
