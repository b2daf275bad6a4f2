// Package netspace runs the tests of a package, or a benchmark, in a new network namespace. Fixed ports are free there,
// there are addresses outside the loopback range, and all child processes end with the namespace. The package is for
// Linux. Users other than root get a user namespace (user_namespaces(7)).
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

// folderVariable is the environment variable that contains the folder of the inner process. Only the inner process has
// it.
const folderVariable = "KEDIFY_TEST_NETSPACE_FOLDER"

// Address returns an address of the namespace that is not on the loopback: the API server rejects endpoints on the
// loopback. It is of a range that RFC 5737 reserves for documentation. All other addresses of 192.0.2.0/24 are local
// too.
func Address() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 10}) }

// Main is the body of a TestMain; its result is the exit code. It calls prepare with an empty folder in the network of
// the machine. Then it starts the test binary again, with the same arguments, in new network and PID namespaces, and
// runs the tests there. Folder returns the folder of prepare. No child process of the tests survives, even if the outer
// process is killed.
func Main(m *testing.M, prepare func(folder string) error) int { return Run(m.Run, prepare) }

// Run is Main for a program other than a test.
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

// Folder returns the folder that prepare has filled, or "" outside Main.
func Folder() string { return os.Getenv(folderVariable) }

// runIsolated calls prepare and starts the inner process. It returns the exit code of the inner process.
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
	// The kernel sends Pdeathsig when the thread ends that started the process, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inner := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec,noctx // this program; go test ends it
	inner.Env = append(os.Environ(), folderVariable+"="+prepared, "TMPDIR="+folder)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = sysProcAttr(os.Geteuid(), os.Getegid())
	err = inner.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode()), nil
	case errors.Is(err, syscall.EPERM):
		return 1, fmt.Errorf("create namespaces: %w: %s", err, fix)
	case err != nil:
		return 1, err
	}
	return 0, nil
}

// fix is the hint for machines that do not permit users to create network namespaces, such as Ubuntu 24.04.
const fix = "run them as root, or allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"

// sysProcAttr returns the namespaces of the inner process. A user is root in a user namespace.
func sysProcAttr(uid, gid int) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	return attributes
}

// setUp enables the loopback of the new network and assigns Address to it.
func setUp() error { return setUpLoopback(true) }

// setUpLoopback enables the loopback, and assigns Address to it if the network has IPv4.
func setUpLoopback(hasIPv4 bool) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set up network namespace: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("set up network namespace: %w", err)
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return fmt.Errorf("set up network namespace: %w", err)
	}
	if err := alias.SetInet4Addr(Address().AsSlice()); err != nil {
		return fmt.Errorf("set up network namespace: %w", err)
	}
	err = unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
	if err == nil && hasIPv4 {
		err = unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias)
	}
	if err != nil {
		return fmt.Errorf("set up network namespace: %w: %s", err, fix)
	}
	return nil
}
