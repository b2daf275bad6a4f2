package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrRunning is returned if another supervisor holds the lock.
var ErrRunning = errors.New("a cluster is already running here")

// acquireLock acquires the run directory's lock for the lifetime of this process. The kernel releases a record lock
// when its holder dies, and returns the holder's process ID, so there is no stale process ID. The returned file must
// stay open.
func acquireLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		_ = file.Close()
		return nil, ErrRunning
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("acquire the lock: %w", err)
	}
	return file, nil
}

// LockHolder returns the process ID of the supervisor of a run directory, or 0.
func LockHolder(dir string) (int, error) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open the lock: %w", err)
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("query the lock: %w", err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(lock.Pid), nil
}
