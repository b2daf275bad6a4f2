package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ListenError says that a port could not be opened, and what to do about it.
type ListenError struct {
	// Purpose is what the port is for, such as "xDS".
	Purpose string
	// Address is what was to be listened on, as host:port.
	Address string
	// Flag is the command line flag that sets Address, with its dashes.
	Flag string
	// Cause is the error of the system call.
	Cause error
}

// Error names the port, the cause and the remedy.
func (e *ListenError) Error() string {
	return fmt.Sprintf("cannot listen on %s for %s: %v; %s", e.Address, e.Purpose, e.Cause, e.remedy())
}

// Unwrap returns Cause.
func (e *ListenError) Unwrap() error { return e.Cause }

// remedy says what helps against Cause.
func (e *ListenError) remedy() string {
	switch {
	case errors.Is(e.Cause, syscall.EADDRINUSE):
		return "end the process that has the port, or choose another with " + e.Flag
	case errors.Is(e.Cause, syscall.EACCES):
		return "ports below 1024 need a privilege: choose a higher one with " + e.Flag
	default:
		return "check " + e.Flag
	}
}

// Listen opens a TCP port. purpose and flag are for the error, which is a *ListenError.
func Listen(ctx context.Context, purpose, address, flag string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &ListenError{Purpose: purpose, Address: address, Flag: flag, Cause: err}
	}
	return listener, nil
}
