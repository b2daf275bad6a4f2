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

// stopFile requests from the supervisor, which is root, the end of the cluster. Only root and the user who started the
// cluster can write to the run directory. So stopping a cluster needs no password.
const stopFile = "end"

// stopRequestGrace is how long the supervisor may take to stop the cluster, also on a slow machine.
const stopRequestGrace = time.Minute

// stopPollInterval is how often the supervisor looks for stopFile.
const stopPollInterval = 100 * time.Millisecond

// awaitStopRequest returns when the end is requested or when the context ends.
func awaitStopRequest(ctx context.Context, dir string) {
	ticker := time.NewTicker(stopPollInterval)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, stopFile)); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// removeIfRequested removes all files of the cluster if stopFile requests its end. Otherwise the process that sent the
// signal removes them.
func removeIfRequested(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, stopFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The lock goes last: the cluster counts as running while the lock is held.
	if err := removeAllBut(dir, lockFile); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	return nil
}

// removeAllBut removes the content of a folder, except some names.
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

// RequestStop stops the cluster of a run directory through its supervisor, without root, and reports whether nothing of
// it is left. It returns false if no supervisor runs, or if the supervisor does not stop the cluster in time.
func RequestStop(ctx context.Context, dir string) (bool, error) {
	holder, err := LockHolder(dir)
	if err != nil || holder == 0 {
		return false, err
	}
	if err := os.WriteFile(filepath.Join(dir, stopFile), nil, 0o644); err != nil {
		return false, nil // another user's
	}
	ctx, cancel := context.WithTimeout(ctx, stopRequestGrace)
	defer cancel()
	ticker := time.NewTicker(stopPollInterval)
	defer ticker.Stop()
	given := false // the lock was free at the last check
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

// keepLogs removes all files of a failed cluster except those that explain the failure. It changes their owner to the
// user, so that cleaning up needs no root. The record of cgroup changes stays until they are reverted.
func keepLogs(dir string, owner int) error {
	if err := removeAllBut(dir, lockFile, PlanFile, StatusFile, ProgressFile, LogFile, cgroup.RecordFile, "logs",
		"demo"); err != nil {
		return err
	}
	// The folder belongs to the user, who could create a link anywhere in it meanwhile.
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
		return fmt.Errorf("change the owner of the logs to user %d: %w", owner, err)
	}
	return nil
}
