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

// Component is a part of the process that runs until shutdown, such as the server of a port.
type Component struct {
	// Name is the name in logs and errors.
	Name string
	// Run runs until ctx ends, then stops gracefully and returns nil. A return before ctx ends is a failure, with or
	// without an error.
	Run func(ctx context.Context) error
}

// Shutdown has the durations of the phases of a shutdown.
type Shutdown struct {
	// Delay is how long the process continues to serve after it reports that it isn't ready, so that load
	// balancers stop routing to it.
	Delay time.Duration
	// Deadline is how long the components can take to stop after Delay.
	Deadline time.Duration
}

// ErrDeadline is in the chain of Run's error if a component has not stopped within Shutdown.Deadline.
var ErrDeadline = errors.New("did not stop in time")

// errReturned is the failure of a component that returned before shutdown without an error.
var errReturned = errors.New("ended unexpectedly")

// exit is the result of one component.
type exit struct {
	name string
	err  error
}

// Run starts all components and returns after all have returned, or after Shutdown.Deadline. The end of ctx starts a
// shutdown in two phases, see the package comment; Run then returns nil. The failure of a component skips the first
// phase, and Run returns its error.
func Run(ctx context.Context, health *Health, shutdown Shutdown, logger *slog.Logger, components ...Component) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	exits := make(chan exit, len(components))
	var running []string
	for _, component := range components {
		running = append(running, component.Name)
		go func() { exits <- exit{component.Name, component.Run(work)} }()
	}

	var failure error
	record := func(e exit) {
		running = slices.DeleteFunc(running, func(name string) bool { return name == e.name })
		if e.err == nil && work.Err() == nil {
			e.err = errReturned
		}
		if e.err != nil {
			failure = errors.Join(failure, fmt.Errorf("%s: %w", e.name, e.err))
		}
	}

	select {
	case e := <-exits:
		record(e)
	case <-ctx.Done():
		logger.InfoContext(work, "shutting down", "delay", shutdown.Delay, "deadline", shutdown.Deadline)
		health.SetNotReady("the process is shutting down")
		select {
		case e := <-exits:
			record(e)
		case <-time.After(shutdown.Delay):
		}
	}
	health.SetNotReady("the process is shutting down")
	stop()
	deadline := time.After(shutdown.Deadline)
	for len(running) > 0 {
		select {
		case e := <-exits:
			record(e)
		case <-deadline:
			return errors.Join(failure, fmt.Errorf("%s: %w", strings.Join(running, ", "), ErrDeadline))
		}
	}
	return failure
}
