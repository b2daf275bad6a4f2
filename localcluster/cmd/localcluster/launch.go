package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// pollInterval is how often a waiting command looks for news.
const pollInterval = 100 * time.Millisecond

// launch starts the supervisor in a session of its own, so that it outlives the
// terminal. Only this process is root; a user is asked once, with the reason.
func launch(ctx context.Context, config node.Config) error {
	dir := config.Settings.Dir
	raw, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("describe the cluster: %w", err)
	}
	plan := filepath.Join(dir, host.PlanFile)
	if err := os.WriteFile(plan, raw, 0o600); err != nil {
		return fmt.Errorf("describe the cluster: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, host.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	if err := elevate(ctx, "the cluster needs namespaces, mounts and cgroups of its own"); err != nil {
		return err
	}
	args := asRoot(program, "supervise", plan, strconv.Itoa(os.Getuid()))
	command := exec.Command(args[0], args[1:]...) //nolint:noctx // our own program; it outlives this one
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	return awaitLock(ctx, dir, exited)
}

// awaitLock waits until the supervisor holds its lock, or has ended.
func awaitLock(ctx context.Context, dir string, exited <-chan error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		holder, err := host.LockHolder(dir)
		if err != nil || holder != 0 {
			return err
		}
		select {
		case err := <-exited:
			if _, statErr := os.Stat(filepath.Join(dir, host.StatusFile)); statErr == nil {
				return nil // it wrote down why; awaitReady tells
			}
			printed, _ := os.ReadFile(filepath.Join(dir, host.LogFile))
			return fmt.Errorf("%w: the supervisor ended at once (%w)\n%s", errFailed, err, printed)
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// elevate makes sure that commands can be run as root.
func elevate(ctx context.Context, reason string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	args := []string{"-n", "true"}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		say("root is needed: %s", reason)
		args = []string{"-v"}
	}
	command := exec.CommandContext(ctx, "sudo", args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("become root (%s): run it as root, or allow sudo: %w", reason, err)
	}
	return nil
}

// asRoot prefixes a command line with sudo where that is needed.
func asRoot(args ...string) []string {
	if os.Geteuid() == 0 {
		return args
	}
	return append([]string{"sudo", "-n", "--"}, args...)
}

// awaitReady shows the supervisor's progress until the cluster is ready.
func awaitReady(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var seen int64
	for {
		next, last, err := showProgress(dir, seen)
		if err != nil {
			return err
		}
		seen = next
		if last == node.Ready {
			return nil
		}
		status, err := host.ReadStatus(dir)
		switch {
		case err != nil:
			return err
		case status.State == host.PhaseBroken:
			return fmt.Errorf("%w: %s", errFailed, status.Message)
		case status.State == host.PhaseRunning:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; see the logs below %s", errFailed, ctx.Err(), filepath.Join(dir, "logs"))
		case <-ticker.C:
		}
	}
}

// showProgress prints the events from an offset on, and returns the next
// offset and the state after the last event.
func showProgress(dir string, offset int64) (int64, node.State, error) {
	file, err := os.Open(filepath.Join(dir, host.ProgressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return offset, "", nil
	}
	if err != nil {
		return offset, "", fmt.Errorf("read progress: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, "", fmt.Errorf("read progress: %w", err)
	}
	var last node.State
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return offset, last, nil // the rest of the line is still being written
		}
		var event node.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return offset, last, fmt.Errorf("read progress: %w", err)
		}
		offset += int64(len(line))
		last = event.State
		if event.State != node.Failed {
			say("  %s", event.Message)
		}
	}
}
