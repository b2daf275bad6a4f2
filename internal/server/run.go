package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Part is one thing that the process does for as long as it lives, such as serving a port.
type Part struct {
	// Name is for logs and errors.
	Name string
	// Run does it until ctx ends, then stops gracefully and returns nil. Returning before ctx ends is a failure, with
	// or without an error.
	Run func(ctx context.Context) error
}

// Shutdown are the times of an orderly end.
type Shutdown struct {
	// Delay is how long everything goes on after readiness was taken back: long enough for it to be noticed.
	Delay time.Duration
	// Deadline is how long the parts may take to stop after that.
	Deadline time.Duration
}

// ErrDeadline is in the chain of Run's error when parts had not stopped in time.
var ErrDeadline = errors.New("did not stop in time")

// errReturned is the failure of a part that ended by itself without an error.
var errReturned = errors.New("ended unexpectedly")

// ending is how one part ended.
type ending struct {
	name string
	err  error
}

// Run starts all parts and returns when all have ended, or when Shutdown.Deadline is over. The end of ctx is the wish
// to stop: it is answered in two phases, see the package comment, and leads to nil. The failure of a part skips the
// first phase and is returned.
func Run(ctx context.Context, health *Health, shutdown Shutdown, logger *slog.Logger, parts ...Part) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	endings := make(chan ending, len(parts))
	var running []string
	for _, part := range parts {
		running = append(running, part.Name)
		go func() { endings <- ending{part.Name, part.Run(work)} }()
	}

	var failure error
	ended := func(e ending) {
		running = slices.DeleteFunc(running, func(name string) bool { return name == e.name })
		if e.err == nil && work.Err() == nil {
			e.err = errReturned
		}
		if e.err != nil {
			failure = errors.Join(failure, fmt.Errorf("%s: %w", e.name, e.err))
		}
	}

	select {
	case e := <-endings:
		ended(e)
	case <-ctx.Done():
		logger.InfoContext(work, "shutting down", "delay", shutdown.Delay, "deadline", shutdown.Deadline)
		health.SetNotReady("the process is shutting down")
		select {
		case e := <-endings:
			ended(e)
		case <-time.After(shutdown.Delay):
		}
	}
	health.SetNotReady("the process is shutting down")
	stop()
	deadline := time.After(shutdown.Deadline)
	for len(running) > 0 {
		select {
		case e := <-endings:
			ended(e)
		case <-deadline:
			return errors.Join(failure, fmt.Errorf("%s: %w", strings.Join(running, ", "), ErrDeadline))
		}
	}
	return failure
}
