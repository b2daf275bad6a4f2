package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// restartPause is the time between the end of a command and its restart.
const restartPause = 500 * time.Millisecond

// watchAge is the lifetime of one watch command. An observed watch missed a change of a custom resource and stayed
// open. A test that waits for such a change then waits for up to a minute.
const watchAge = 40 * time.Second

// Latest contains the last value of something that changes. The zero value contains the zero value.
type Latest[T any] struct {
	mu    sync.Mutex
	value T
}

// Set replaces the value.
func (l *Latest[T]) Set(value T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = value
}

// Get returns the value.
func (l *Latest[T]) Get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value
}

// Watch updates latest from the output of a long-lived `kubectl get … -w -o json`. It restarts the command when it
// ends, and after watchAge. It returns when ctx ends.
func Watch[T any](ctx context.Context, runner Runner, latest *Latest[T], args ...string) {
	repeat(ctx, func() error {
		//testbounds:allow the watch starts again
		ctx, cancel := context.WithTimeout(ctx, watchAge)
		defer cancel()
		return runner.Stream(ctx, func(out io.Reader) error { return decode(out, latest) }, args...)
	})
}

// decode reads a sequence of JSON objects.
func decode[T any](out io.Reader, latest *Latest[T]) error {
	decoder := json.NewDecoder(out)
	for {
		var value T
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		latest.Set(value)
	}
}

// Forward keeps `kubectl port-forward` running and sets address to its local address, or to nothing while there is
// none. kubectl chooses a free port at every start. It returns when ctx ends.
func Forward(ctx context.Context, runner Runner, address *Latest[string], args ...string) {
	repeat(ctx, func() error {
		defer address.Set("")
		return runner.Stream(ctx, func(out io.Reader) error { return readAddress(out, address) }, args...)
	})
}

// readAddress reads lines such as "Forwarding from 127.0.0.1:40123 -> 9901".
func readAddress(out io.Reader, address *Latest[string]) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		rest, isForwarding := strings.CutPrefix(lines.Text(), "Forwarding from ")
		local, _, hasTarget := strings.Cut(rest, " -> ")
		if isForwarding && hasTarget && !strings.HasPrefix(local, "[") { // the IPv6 line contains the same port
			address.Set(local)
		}
	}
	return lines.Err()
}

// repeat calls run repeatedly until ctx ends. It ignores the error of run, because every user of the result has its own
// time limit and its own error.
func repeat(ctx context.Context, run func() error) {
	for ctx.Err() == nil {
		_ = run() // see above
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}
