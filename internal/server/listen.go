package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// userTimeout is how long the peer of a connection may acknowledge nothing. It is gRPC's default.
const userTimeout = 20 * time.Second

// ListenError is the error of a port that cannot be opened, with a fix.
type ListenError struct {
	// Purpose is the purpose of the port, such as "xDS".
	Purpose string
	// Address is the address to listen on, host:port.
	Address string
	// Flag is the command line flag that sets Address, with its dashes.
	Flag string
	// Cause is the error of the system call.
	Cause error
}

// Error returns the port, the cause and the fix.
func (e *ListenError) Error() string {
	return fmt.Sprintf("cannot listen on %s for %s: %v: %s", e.Address, e.Purpose, e.Cause, e.fix())
}

// Unwrap returns Cause.
func (e *ListenError) Unwrap() error { return e.Cause }

// fix returns the fix for Cause.
func (e *ListenError) fix() string {
	switch {
	case errors.Is(e.Cause, syscall.EADDRINUSE):
		return "end the process that uses the port, or choose another port with " + e.Flag
	case errors.Is(e.Cause, syscall.EACCES):
		return "ports below 1024 need a privilege: choose a higher port with " + e.Flag
	default:
		return "check " + e.Flag
	}
}

// Listen opens a TCP port. The error is a *ListenError with purpose and flag. The system closes a connection whose peer
// does not acknowledge what was sent for userTimeout, as on a failed node.
func Listen(ctx context.Context, purpose, address, flag string) (net.Listener, error) {
	config := net.ListenConfig{Control: setUserTimeout}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &ListenError{Purpose: purpose, Address: address, Flag: flag, Cause: err}
	}
	return listener, nil
}
