package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoProcess means that the cluster has no such process now.
var ErrNoProcess = errors.New("no such process in the cluster")

// Process is a process with its ids on the host.
type Process struct {
	// PID and Parent are process ids.
	PID, Parent int
	// NamespacePID is the id in the innermost PID namespace of the process. It is 1 for the first process of a cluster or
	// container.
	NamespacePID int
	// Args is the command line.
	Args []string
}

// Program returns the last element of the path of the executable.
func (p Process) Program() string {
	if len(p.Args) == 0 {
		return ""
	}
	return filepath.Base(p.Args[0])
}

// processes returns all processes of the machine, except those that end during the call.
func processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// readProcess reads a process, if it still exists.
func readProcess(pid int) (Process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Process{}, false
	}
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Process{}, false
	}
	return parseProcess(pid, status, command), true
}

// parseProcess reads /proc/PID/status and /proc/PID/cmdline
// (https://man7.org/linux/man-pages/man5/proc.5.html).
func parseProcess(pid int, status, command []byte) Process {
	p := Process{PID: pid}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "PPid":
			p.Parent, _ = strconv.Atoi(fields[0]) // always a number: proc(5)
		case "NSpid":
			p.NamespacePID, _ = strconv.Atoi(fields[len(fields)-1]) // one per namespace, the innermost last
		}
	}
	for arg := range bytes.SplitSeq(bytes.TrimRight(command, "\x00"), []byte{0}) {
		if len(arg) > 0 || len(p.Args) > 0 {
			p.Args = append(p.Args, string(arg))
		}
	}
	return p
}

// descendants returns all direct and indirect children of root. If the parent of a process ends, the process becomes a
// child of the first process of its namespace. Therefore no process of a cluster is missing below the first one.
func descendants(all []Process, root int) []Process {
	var result []Process
	parents := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if parents[p.Parent] && !parents[p.PID] {
				parents[p.PID], grew = true, true
				result = append(result, p)
			}
		}
	}
	slices.SortFunc(result, func(a, b Process) int { return a.PID - b.PID })
	return result
}

// Pod returns the name of the process's Pod, which is its host name. For a process outside Pods it is the name of the
// node.
func (p Process) Pod() (string, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "root", "etc", "hostname"))
	if err != nil {
		return "", fmt.Errorf("%w: the pod of %s: %w", ErrNoProcess, p.Program(), err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// DialContext connects to a numeric address from the network namespace of the process, with the arguments of
// net.Dialer.DialContext. A connection from a Pod to the address of a Service is like one of the Pod's program.
func (p Process) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("an address of the cluster has to be a number: %w", err)
	}
	return dialFrom(ctx, p.PID, parsed)
}

// Signal sends a signal to exactly this process, and not to a later one with the same id.
func (p Process) Signal(signal unix.Signal) error {
	handle, err := p.open()
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil {
		return fmt.Errorf("send %s to %s (%d): %w", signal, p.Program(), p.PID, err)
	}
	return nil
}

// Kill kills the process, like `kill -9`. It returns when the signal was sent and when the process was gone.
func (p Process) Kill(ctx context.Context) (signaled, gone time.Time, err error) {
	handle, err := p.open()
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	defer unix.Close(handle)
	signaled = time.Now()
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		return signaled, time.Time{}, fmt.Errorf("kill %s (%d): %w", p.Program(), p.PID, err)
	}
	for ctx.Err() == nil {
		// The handle is readable once the process has ended (pidfd_open(2)).
		polled := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(polled, int((100 * time.Millisecond).Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return signaled, time.Time{}, fmt.Errorf("wait for the end of %s (%d): %w", p.Program(), p.PID, err)
		case n > 0:
			return signaled, time.Now(), nil
		}
	}
	return signaled, time.Time{}, fmt.Errorf("wait for the end of %s (%d): %w", p.Program(), p.PID, ctx.Err())
}

// open opens a handle of the process and checks that the id was not reused.
func (p Process) open() (int, error) {
	handle, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return 0, fmt.Errorf("%w: %s (%d): %w", ErrNoProcess, p.Program(), p.PID, err)
	}
	now, lives := readProcess(p.PID)
	if !lives || now.Parent != p.Parent || !slices.Equal(now.Args, p.Args) {
		return 0, errors.Join(fmt.Errorf("%w: %s (%d) has ended", ErrNoProcess, p.Program(), p.PID), unix.Close(handle))
	}
	return handle, nil
}
