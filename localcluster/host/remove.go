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

// endGrace is how long a supervisor may take to end its cluster before it is
// killed, which ends the cluster too.
const endGrace = 8 * time.Second

// Remove ends the cluster of a run directory, whatever state it is in, and
// removes its cgroup and its files. It needs root. It is fine when nothing is
// there.
func Remove(ctx context.Context, s cluster.Settings) error {
	if err := endSupervisor(ctx, s.Dir); err != nil {
		return err
	}
	if err := cgroup.Remove(s, cgroupGrace); err != nil {
		return err
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	return nil
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
