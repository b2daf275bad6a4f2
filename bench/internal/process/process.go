// Package process reads from Linux what processes use, for benchmarks.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoField says that the kernel does not tell something.
var ErrNoField = errors.New("the kernel does not tell")

// Find returns the folder in /proc of a process with a number of ours. /proc may be that of a process
// namespace outside of ours, with other numbers: then the process is the one that says that it has
// this number in our namespace (NSpid in proc_pid_status(5)).
func Find(pid int) (Folder, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	for _, folder := range folders {
		if space, err := os.Readlink(filepath.Join(folder, "ns/pid")); err != nil || space != own {
			continue // It has ended, or is none of ours.
		}
		status, err := os.ReadFile(filepath.Clean(filepath.Join(folder, "status")))
		numbers := strings.Fields(field(status, "NSpid"))
		if err == nil && len(numbers) > 0 && numbers[len(numbers)-1] == strconv.Itoa(pid) {
			return Folder(folder), nil
		}
	}
	return "", fmt.Errorf("%w of process %d", ErrNoField, pid)
}

// Folder is the folder of a process in /proc.
type Folder string

// CPU is how long all threads of the process have run, in microseconds. What ended threads have used
// is not in it.
func (f Folder) CPU() (float64, error) { return f.cpu("*") }

// MainThreadCPU is how long the main thread has run, in microseconds. It has the number of the
// process.
func (f Folder) MainThreadCPU() (float64, error) { return f.cpu(filepath.Base(string(f))) }

// cpu adds up the first fields of schedstat, in nanoseconds
// (Documentation/scheduler/sched-stats.rst of Linux).
func (f Folder) cpu(thread string) (float64, error) {
	pattern := filepath.Join(string(f), "task", thread, "schedstat")
	files, err := filepath.Glob(pattern)
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("%w: %s", ErrNoField, pattern)
	}
	var sum float64
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			continue // The thread has ended.
		}
		first, _, _ := strings.Cut(string(text), " ")
		nanoseconds, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += nanoseconds / 1000
	}
	return sum, nil
}

// Memory is what a process has in memory, in MB of a million bytes.
type Memory struct {
	// Resident is all of it, and Anonymous what is not backed by files (proc_pid_status(5)).
	Resident, Anonymous float64
}

// Memory reads the Memory of the process.
func (f Folder) Memory() (Memory, error) {
	status, err := os.ReadFile(filepath.Join(string(f), "status"))
	if err != nil {
		return Memory{}, err
	}
	resident, err := megabytes(status, "VmRSS")
	if err != nil {
		return Memory{}, err
	}
	anonymous, err := megabytes(status, "RssAnon")
	return Memory{resident, anonymous}, err
}

// megabytes reads a field in kB.
func megabytes(status []byte, name string) (float64, error) {
	kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(field(status, name), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("%w %s in /proc/<pid>/status: %w", ErrNoField, name, err)
	}
	return kilobytes * 1024 / 1e6, nil
}

// field returns a field of a status, "" when there is none.
func field(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if value, is := strings.CutPrefix(string(line), name+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Descriptors is how many files, sockets and the like the process has open.
func (f Folder) Descriptors() (int, error) {
	open, err := os.ReadDir(filepath.Join(string(f), "fd"))
	return len(open), err
}
