// Package process reads the resource usage of processes from Linux.
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

// ErrNoField is returned if the kernel does not provide a value.
var ErrNoField = errors.New("the kernel does not provide it")

// Find returns the folder in /proc of a process ID of this PID namespace. /proc may belong to an outer PID namespace
// with other IDs. Then the process is the one with this ID in this namespace (NSpid in proc_pid_status(5)).
func Find(pid int) (Folder, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	for _, folder := range folders {
		if space, err := os.Readlink(filepath.Join(folder, "ns/pid")); err != nil || space != namespace {
			continue // It has ended, or is not in this namespace.
		}
		status, err := os.ReadFile(filepath.Clean(filepath.Join(folder, "status")))
		numbers := strings.Fields(field(status, "NSpid"))
		if err == nil && len(numbers) > 0 && numbers[len(numbers)-1] == strconv.Itoa(pid) {
			return Folder(folder), nil
		}
	}
	return "", fmt.Errorf("process %d: %w", pid, ErrNoField)
}

// Folder is the folder of a process in /proc.
type Folder string

// CPU returns the run time of all threads of the process, in microseconds. It omits ended threads.
func (f Folder) CPU() (float64, error) { return f.cpu("*") }

// MainThreadCPU returns the run time of the main thread, in microseconds. Its ID is the process ID.
func (f Folder) MainThreadCPU() (float64, error) { return f.cpu(filepath.Base(string(f))) }

// cpu adds up the first fields of schedstat, in nanoseconds (Documentation/scheduler/sched-stats.rst of Linux).
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

// Memory is the memory of a process, in MB of a million bytes.
type Memory struct {
	// Resident is all of it. Anonymous is the part without backing files (proc_pid_status(5)).
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

// ResetPeak makes Peak begin again (proc_pid_clear_refs(5)).
func (f Folder) ResetPeak() error {
	return os.WriteFile(filepath.Join(string(f), "clear_refs"), []byte("5"), 0)
}

// Peak returns the largest resident memory since ResetPeak, or since the start of the process, in bytes.
func (f Folder) Peak() (int, error) {
	status, err := os.ReadFile(filepath.Join(string(f), "status"))
	if err != nil {
		return 0, err
	}
	size, err := kibibytes(status, "VmHWM")
	return int(size) << 10, err
}

// megabytes reads a field in MB of a million bytes.
func megabytes(status []byte, name string) (float64, error) {
	size, err := kibibytes(status, name)
	return size * 1024 / 1e6, err
}

// kibibytes reads a field, which the kernel writes in units of 1024 bytes.
func kibibytes(status []byte, name string) (float64, error) {
	size, err := strconv.ParseFloat(strings.TrimSuffix(field(status, name), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("%w %s in /proc/<pid>/status: %w", ErrNoField, name, err)
	}
	return size, nil
}

// field returns a field of a status, "" if there is none.
func field(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if value, ok := strings.CutPrefix(string(line), name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Descriptors returns the number of open file descriptors of the process.
func (f Folder) Descriptors() (int, error) {
	open, err := os.ReadDir(filepath.Join(string(f), "fd"))
	return len(open), err
}
