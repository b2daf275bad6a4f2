package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// endGrace is how long a supervisor may take to end its cluster before it is
// killed, which ends the cluster too.
const endGrace = 8 * time.Second

// Remove ends the cluster of a run directory, whatever state it is in, and
// removes its cgroup and its files. It is fine when nothing is there.
func Remove(ctx context.Context, dir, cgroup string) error {
	if err := endSupervisor(ctx, dir); err != nil {
		return err
	}
	if err := removeCgroup(cgroup, cgroupGrace); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	return nil
}

// CgroupExists tells whether a cluster left its cgroup.
func CgroupExists(path string) bool {
	roots, err := hierarchies()
	if err != nil {
		return false
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return true
		}
	}
	return false
}

// endSupervisor asks the supervisor to end, and kills it when it doesn't. The
// process is the one that holds the lock at this moment, never a recorded id.
func endSupervisor(ctx context.Context, dir string) error {
	signal := unix.SIGTERM
	deadline := time.Now().Add(endGrace)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		holder, err := LockHolder(dir)
		if err != nil || holder == 0 {
			return err
		}
		if signal != 0 {
			if err := unix.Kill(holder, signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end the supervisor (process %d): %w", holder, err)
			}
		}
		signal = 0
		if time.Now().After(deadline) {
			signal, deadline = unix.SIGKILL, time.Now().Add(endGrace)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
