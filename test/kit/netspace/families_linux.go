package netspace

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Families are the IP families of a network. Its loopback interface always has 127.0.0.1.
type Families string

const (
	// IPv4 is a network in which IPv6 is disabled, as by the sysctl disable_ipv6 of a node.
	IPv4 Families = "ipv4"
	// IPv6 is a network in which only the loopback interface has an IPv4 address.
	IPv6 Families = "ipv6"
	// DualStack is a network with both.
	DualStack Families = "dual-stack"
)

// testVariable is the environment variable with the name of the test that an inner process of Isolate runs.
const testVariable = "KEDIFY_TEST_NETSPACE_TEST"

// disableIPv6 is the file of the sysctl.
const disableIPv6 = "/proc/sys/net/ipv6/conf/all/disable_ipv6"

// AddressIPv6 is the counterpart of Address in the networks of Isolate. It is of the range that RFC 3849 reserves for
// documentation.
func AddressIPv6() netip.Addr { return netip.MustParseAddr("2001:db8::10") }

// Has reports whether the network has Address or AddressIPv6, respectively.
func (f Families) Has(address netip.Addr) bool { return f == DualStack || (f == IPv6) == address.Is6() }

// Isolate runs the calling test once more, in a process of its own in new network and PID namespaces with the given
// families. In that process it returns true. In the outer process it returns false after the inner one has ended; the
// test fails with it and must return. Call it first in a test or subtest. The network has only a loopback interface,
// with Address and AddressIPv6.
func Isolate(t *testing.T, families Families) (isInside bool) {
	t.Helper()
	if os.Getenv(testVariable) == t.Name() {
		if err := setUpFamilies(families); err != nil {
			t.Fatal(err)
		}
		return true
	}
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	// The kernel sends Pdeathsig when the thread ends that started the process, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inner := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", //nolint:gosec // this program
		"-test.run="+strings.Join(pattern, "/"))
	inner.Env = append(os.Environ(), testVariable+"="+t.Name())
	inner.SysProcAttr = sysProcAttr(os.Geteuid(), os.Getegid())
	output, err := inner.CombinedOutput()
	if err != nil {
		t.Errorf("in network namespace %s: %v (%s):\n%s", families, err, fix, output)
	} else {
		t.Logf("in network namespace %s:\n%s", families, output)
	}
	return false
}

// setUpFamilies sets up the network of the process.
func setUpFamilies(families Families) error {
	if families == IPv4 {
		if err := os.WriteFile(disableIPv6, []byte("1"), 0o600); err != nil {
			return fmt.Errorf("set up network namespace: %w: %s", err, fix)
		}
		return setUpLoopback(true)
	}
	if err := setUpLoopback(families == DualStack); err != nil {
		return err
	}
	if err := assignIPv6(AddressIPv6()); err != nil {
		return err
	}
	return awaitAddress(AddressIPv6())
}

// awaitAddress waits until a socket can have an address. The kernel completes the detection of duplicates in the
// background, even for the loopback interface.
func awaitAddress(address netip.Addr) error {
	var last error
	return await.Until(context.Background(), "the address "+address.String(), func() bool {
		var listener net.Listener
		at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0))
		if listener, last = net.ListenTCP("tcp", at); last == nil {
			last = listener.Close()
		}
		return last == nil
	}, func() string { return fmt.Sprint(last) })
}

// requestIPv6 is struct in6_ifreq (linux/ipv6.h).
type requestIPv6 struct {
	address      [16]byte
	prefixLength uint32
	index        int32
}

const (
	// loopbackIndex is the index of the loopback interface in every network.
	loopbackIndex = 1
	// addressBits is the length of an IPv6 address.
	addressBits = 128
)

// assignIPv6 assigns an IPv6 address to the loopback interface.
func assignIPv6(address netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("this machine has no IPv6, which the test needs: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	request := requestIPv6{address: address.As16(), prefixLength: addressBits, index: loopbackIndex}
	_, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCSIFADDR,
		uintptr(unsafe.Pointer(&request))) //nolint:gosec // package unix has no function for this ioctl
	if code != 0 {
		return fmt.Errorf("assign %s to the loopback interface: %w", address, code)
	}
	return nil
}
