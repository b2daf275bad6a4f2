package server_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// TestAcceptedConnectionsHaveAUserTimeout reads TCP_USER_TIMEOUT of an accepted connection.
func TestAcceptedConnectionsHaveAUserTimeout(t *testing.T) {
	t.Parallel()
	listener, err := server.Listen(t.Context(), "test", "127.0.0.1:0", "--test")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const tcpUserTimeout = 18
	milliseconds := 0
	if failed := raw.Control(func(descriptor uintptr) {
		milliseconds, err = syscall.GetsockoptInt(int(descriptor), syscall.IPPROTO_TCP, tcpUserTimeout)
	}); failed != nil || err != nil || milliseconds != 20_000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v, %v; want 20 s", milliseconds, failed, err)
	}
}
