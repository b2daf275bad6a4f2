// Package loopback gives tests and benchmarks loopback addresses of their own. A port of such an address is a fixed
// number: no other test has the address, and a number below the ephemeral ports (net.ipv4.ip_local_port_range, from
// 32768 on) is no outgoing connection's. So no test has to find a free port, close it, and hope that it stays free
// until the program that needs it listens.
//
// The package is for Linux, where all of 127.0.0.0/8 is the machine itself and where abstract sockets exist (unix(7)).
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
)

// Address returns an address of 127.0.0.0/8, outside 127.0.0.0/16, that no other call of Address has returned, in this
// process or in any running one. The address stays reserved until this process ends, also when it is killed.
//
// An abstract Unix socket named after the address reserves it. The scope of such a name is a network namespace, which
// is the scope of the address too: processes of the same network namespace get different addresses even when their PID
// namespaces or users differ, and a process that changes its network namespace has to call Address again.
//
// Two things are not prevented: a program that listens on all addresses of the machine takes its port of these
// addresses too, and a child process that outlives this process keeps listening on an address that is no longer
// reserved.
//
// Address panics if the kernel refuses the socket, for example because the process has too many open files.
func Address() netip.Addr {
	for {
		address := random()
		err := reserve(address)
		if err == nil {
			return address
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			panic(fmt.Sprintf("reserve the loopback address %s: %v", address, err))
		}
	}
}

// random is an address from 127.1.0.1 to 127.254.255.254.
func random() netip.Addr {
	number := func(first, last int) byte { return byte(first + rand.IntN(last-first+1)) } //nolint:gosec // not a secret
	return netip.AddrFrom4([4]byte{127, number(1, 254), number(0, 255), number(1, 254)})
}

// reserve binds the socket of an address. Nothing closes the socket but the end of the process.
func reserve(address netip.Addr) error {
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrUnix{Name: "@kedify-test-" + address.String()}); err != nil {
		return errors.Join(err, syscall.Close(socket))
	}
	return nil
}
