package server

import (
	"errors"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT (linux/tcp.h), see tcp(7). Accepted connections inherit it from the listener.
const tcpUserTimeout = 18

// setUserTimeout sets userTimeout for the connections of a listener. gRPC and net/http set it for no connection, or only
// for those that nothing wraps.
func setUserTimeout(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(descriptor uintptr) {
		failed = syscall.SetsockoptInt(int(descriptor), syscall.IPPROTO_TCP, tcpUserTimeout,
			int(userTimeout.Milliseconds()))
	})
	return errors.Join(err, failed)
}
