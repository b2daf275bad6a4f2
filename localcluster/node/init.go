package node

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// Init is the main function of the first process of the cluster's namespaces. It sets up the mounts, starts the
// supervisor as its child, forwards termination signals to it, reaps every orphan of the cluster and returns the
// supervisor's exit code. When it returns, its caller must exit, and the kernel ends the rest.
//
// The supervisor is a separate process because a Go program cannot reap all children and use os/exec at the same time.
func Init(config Config, supervisor []string, inherited int) (int, error) {
	if err := isolate(config.Settings); err != nil {
		return 0, err
	}
	files := make([]uintptr, 3+inherited)
	for i := range files {
		files[i] = uintptr(i)
	}
	child, err := syscall.ForkExec(supervisor[0], supervisor, &syscall.ProcAttr{Env: os.Environ(), Files: files})
	if err != nil {
		return 0, fmt.Errorf("start the node's supervisor: %w", err)
	}
	// The child has copies of its own: the listeners must close when it ends.
	for fd := 3; fd < 3+inherited; fd++ {
		_ = unix.Close(fd)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = unix.Kill(child, number)
			}
		}
	}()
	return reapUntil(child)
}

// isolate sets up the node's root file system and its cgroups. Namespaces belong to threads: call it on the thread that
// starts the node's processes.
func isolate(s cluster.Settings) error {
	if s.UnifiedCgroups {
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("create a cgroup namespace: %w", err)
		}
	}
	if err := enterRoot(s); err != nil {
		return err
	}
	if s.UnifiedCgroups {
		return delegateCgroup()
	}
	return nil
}

// reapUntil reaps every ended process until the given one has ended, and returns its exit code.
func reapUntil(child int) (int, error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for the node's processes: %w", err)
		case pid != child:
			continue
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
