package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// endGrace is how long a supervisor may take to stop its cluster. After that it is killed, which stops the cluster,
// too.
const endGrace = 8 * time.Second

// Remove stops the cluster of a run directory in any state, and removes its cgroup and its files. It needs root. It
// succeeds if nothing exists.
func Remove(ctx context.Context, s cluster.Settings) error {
	return untilEmpty(ctx, func() error {
		if err := stopSupervisor(ctx, s.Dir); err != nil {
			return err
		}
		if err := cgroup.Remove(s, cgroupGrace); err != nil {
			return err
		}
		if err := os.RemoveAll(s.Dir); err != nil {
			return fmt.Errorf("remove the run directory: %w", err)
		}
		return nil
	})
}

// untilEmpty repeats a removal during which another process added a file, for about endGrace. This happens if the
// command that started the cluster is killed before the supervisor has its lock: that supervisor cannot be found yet,
// and writes its first files. The repetition finds its lock.
func untilEmpty(ctx context.Context, remove func() error) error {
	for repetition := time.Duration(0); ; repetition++ {
		err := remove()
		if !errors.Is(err, unix.ENOTEMPTY) || repetition == endGrace/stopPollInterval {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(stopPollInterval):
		}
	}
}

// stopSupervisor signals the supervisor to end, and kills it after endGrace. The process is the current holder of the
// lock, never a recorded ID.
func stopSupervisor(ctx context.Context, dir string) error {
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
				return fmt.Errorf("stop the supervisor (process %d): %w", holder, err)
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
