package attacks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// errNoProcess means that /proc does not contain a process.
var errNoProcess = errors.New("no such process")

// memory reads the memory of a process. limit is that of its container, in MiB.
type memory struct {
	folder string
	limit  int
}

// memoryOf returns the memory of a process of this PID namespace, whose IDs differ from those in /proc.
func memoryOf(pid, limit int) (memory, error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return memory{}, err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return memory{}, err
	}
	for _, folder := range folders {
		if namespace, err := os.Readlink(filepath.Join(folder, "ns/pid")); err != nil || namespace != own {
			continue // It has ended, or is not in this namespace.
		}
		status, err := os.ReadFile(filepath.Clean(filepath.Join(folder, "status")))
		found := regexp.MustCompile(`NSpid:\s+(.*)`).FindSubmatch(status)
		if err != nil || found == nil {
			continue
		}
		if ids := strings.Fields(string(found[1])); slices.Contains(ids[len(ids)-1:], strconv.Itoa(pid)) {
			return memory{folder, limit}, nil
		}
	}
	return memory{}, fmt.Errorf("%w: %d", errNoProcess, pid)
}

// reset makes peak begin again (proc_pid_clear_refs(5)).
func (m memory) reset(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.folder, "clear_refs"), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// peak returns the largest resident memory since reset, in MiB.
func (m memory) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join(m.folder, "status"))
	if err != nil {
		t.Fatalf("the interceptor has ended: %v", err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}
