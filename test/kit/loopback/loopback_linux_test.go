package loopback

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// childVariable is the environment variable that makes this test binary a child of TestAddressesOfProcesses.
const childVariable = "KEDIFY_TEST_LOOPBACK_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	fmt.Println(Address())
	_, _ = io.Copy(io.Discard, os.Stdin) // The parent closes it.
}

// child starts a process that reserves an address, and returns the address. The process runs until end is called.
func child(t *testing.T) (address netip.Addr, end func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(os.Environ(), childVariable+"=1")
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, _, err := bufio.NewReader(stdout).ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddr(string(line)), func() {
		if err := errors.Join(stdin.Close(), command.Wait()); err != nil {
			t.Error(err)
		}
	}
}

func TestAddress(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for range 100 {
		address := Address()
		if seen[address] {
			t.Fatalf("%s was returned twice", address)
		}
		seen[address] = true
		if !address.IsLoopback() || netip.MustParsePrefix("127.0.0.0/16").Contains(address) {
			t.Errorf("%s is not an address of 127.0.0.0/8 outside 127.0.0.0/16", address)
		}
	}
}

func TestPortsOfAnAddress(t *testing.T) {
	var config net.ListenConfig
	for range 2 {
		// Port 20000 twice: two addresses.
		listener, err := config.Listen(t.Context(), "tcp", netip.AddrPortFrom(Address(), 20000).String())
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
}

// TestAddressesOfProcesses checks that an address is reserved as long as the process runs that has reserved it.
func TestAddressesOfProcesses(t *testing.T) {
	first, endFirst := child(t)
	second, endSecond := child(t)
	if first == second {
		t.Errorf("two processes have the address %s", first)
	}
	for _, address := range []netip.Addr{first, second} {
		if err := reserve(address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("the reservation of another process's %s: %v, want EADDRINUSE", address, err)
		}
	}
	endFirst()
	if err := reserve(first); err != nil {
		t.Errorf("the reservation of %s after the end of its process: %v", first, err)
	}
	endSecond()
}
