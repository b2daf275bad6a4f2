package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
)

// endFile asks the supervisor, which is root, to end the cluster. Only those who
// may write to the run directory can: root, and the user who asked for the
// cluster. So ending a cluster takes no password.
const endFile = "end"

// askGrace is how long the supervisor may take for it, also on a slow machine.
const askGrace = time.Minute

// lookInterval is how often the supervisor looks for the request.
const lookInterval = 100 * time.Millisecond

// awaitEnd returns when the end is asked for, or with the context.
func awaitEnd(ctx context.Context, dir string) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, endFile)); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// endOrder removes all that the cluster has written if its end was asked for in
// the run directory. Otherwise whoever sent a signal does it.
func endOrder(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, endFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The lock goes last: as long as it is held, the end is not reached.
	if err := removeAllBut(dir, lockFile); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	return nil
}

// removeAllBut removes what is in a folder, but for some names.
func removeAllBut(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the run directory: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains(names, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("remove what the cluster wrote: %w", err)
		}
	}
	return nil
}

// AskForEnd ends the cluster of a run directory by its supervisor, without root,
// and tells whether nothing of it is left. It is false when there is no
// supervisor, or none that can do it in time.
func AskForEnd(ctx context.Context, dir string) (bool, error) {
	holder, err := LockHolder(dir)
	if err != nil || holder == 0 {
		return false, err
	}
	if err := os.WriteFile(filepath.Join(dir, endFile), nil, 0o644); err != nil {
		return false, nil // another user's
	}
	ctx, cancel := context.WithTimeout(ctx, askGrace)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	given := false // the lock was free when last looked at
	for {
		holder, err := LockHolder(dir)
		if err != nil {
			return false, err
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return true, nil
		} else if holder == 0 && given {
			return false, nil // it died without removing anything
		}
		given = holder == 0
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}

// handOver keeps, of what a failed cluster has written, only what tells why, and
// gives it to the owner, so that cleaning up takes no root. What is left to be
// taken back in the cgroups stays on record.
func handOver(dir string, owner int) error {
	if err := removeAllBut(dir, lockFile, PlanFile, StatusFile, ProgressFile, LogFile, cgroup.RecordFile, "logs", "demo"); err != nil {
		return err
	}
	// The folder is the user's, who could put a link anywhere into it meanwhile.
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the run directory: %w", err)
	}
	defer folder.Close()
	err = fs.WalkDir(folder.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return folder.Lchown(path, owner, -1)
	})
	if err != nil {
		return fmt.Errorf("give the logs to user %d: %w", owner, err)
	}
	return nil
}
