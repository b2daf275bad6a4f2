package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// errTimeout is the error for a value of --timeout that is no time limit.
var errTimeout = errors.New("use a duration of at least 0s, such as 90s or 10m; 0s means no limit")

// timeoutValue is the value of --timeout. 0 means no limit.
type timeoutValue time.Duration

// addTimeout adds the flag --timeout with a default. The usage names what it limits.
func addTimeout(flags *pflag.FlagSet, timeout *time.Duration, standard time.Duration, usage string) {
	*timeout = standard
	flags.Var((*timeoutValue)(timeout), "timeout", usage+"; 0s for no limit")
}

// Set parses a value.
func (v *timeoutValue) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return errTimeout
	}
	*v = timeoutValue(parsed)
	return nil
}

// String returns the value as a Go duration.
func (v *timeoutValue) String() string { return time.Duration(*v).String() }

// Type returns the name of the type in pflag.
func (v *timeoutValue) Type() string { return "duration" }

// withTimeout returns a context that ends after a timeout, or with ctx if the timeout is 0.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
