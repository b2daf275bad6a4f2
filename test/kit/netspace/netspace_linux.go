// Package netspace runs the tests of a package, or a benchmark, in a network of their own: fixed ports are free there, there are addresses beside the
// loopback's, and whatever they start ends with them. It is for Linux. Whoever isn't root gets them in a user namespace (user_namespaces(7)).
package netspace

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// folderVariable is the environment variable by which the inner process knows that it is one, and its folder.
const folderVariable = "KEDIFY_TEST_NETSPACE_FOLDER"

// Address is the address of the network's only machine. The API server refuses endpoints on the loopback, so those of tests are here. It is one that
// RFC 5737 sets aside for documentation. All others of 192.0.2.0/24 are that machine's too.
func Address() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 10}) }

// Main is the body of a TestMain; its result is the exit code. It calls prepare, with an empty folder, in the network of the machine. Then it starts the test
// binary again, with the same arguments, in a network and a process namespace of its own, and runs the tests there. Folder is where prepare has put things.
// None of their processes stays behind, not even when the outer one is killed.
func Main(m *testing.M, prepare func(folder string) error) int { return Run(m.Run, prepare) }

// Run is Main for a program that does something else than tests.
func Run(inside func() int, prepare func(folder string) error) int {
	var err error
	code := 1
	if Folder() == "" {
		code, err = runIsolated(prepare)
	} else if err = setUp(); err == nil {
		code = inside()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// Folder is the folder that prepare has filled; empty outside of Main.
func Folder() string { return os.Getenv(folderVariable) }

// runIsolated prepares and starts the inner process. A result of 0 is the inner one's.
func runIsolated(prepare func(folder string) error) (code int, err error) {
	folder, err := os.MkdirTemp("", "test-netspace")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	prepared := filepath.Join(folder, "prepared")
	if err := os.Mkdir(prepared, 0o700); err != nil {
		return 1, err
	}
	if err := prepare(prepared); err != nil {
		return 1, err
	}
	// The signal comes when the thread ends that started the process, so that thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inner := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec,noctx // this very program; go test ends it
	inner.Env = append(os.Environ(), folderVariable+"="+prepared, "TMPDIR="+folder)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = sysProcAttr(os.Geteuid(), os.Getegid())
	err = inner.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode()), nil
	case errors.Is(err, syscall.EPERM):
		return 1, fmt.Errorf("this runs in a network of their own (%s): %w", fix, err)
	case err != nil:
		return 1, err
	}
	return 0, nil
}

// fix is for machines that keep users from networks of their own, as Ubuntu 24.04 does.
const fix = "run them as root, or allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"

// sysProcAttr are those of the inner process. A user is root in a user namespace.
func sysProcAttr(uid, gid int) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	return attributes
}

// setUp opens the loopback of the new network and gives it Address.
func setUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network of its own: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("network of its own: %w", err)
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return fmt.Errorf("network of its own: %w", err)
	}
	if err := alias.SetInet4Addr(Address().AsSlice()); err != nil {
		return fmt.Errorf("network of its own: %w", err)
	}
	if err := errors.Join(unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback), unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias)); err != nil {
		return fmt.Errorf("network of its own (%s): %w", fix, err)
	}
	return nil
}
