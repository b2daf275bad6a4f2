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
	"path/filepath"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// pollInterval is the interval at which a waiting command reads new events.
const pollInterval = 100 * time.Millisecond

// progressInterval is the longest time without output while a user waits.
const progressInterval = 20 * time.Second

// launch starts the supervisor as root, in a session of its own, so that it outlives the terminal. sudo itself stays in
// the terminal's session, to which its ticket belongs; the command that it runs returns as soon as the supervisor runs.
func launch(ctx context.Context, config node.Config) error {
	plan, err := writePlan(config)
	if err != nil {
		return err
	}
	if err := runAsRoot(ctx, "inside", "start", plan); err != nil {
		return fmt.Errorf("%w: %w", errFailed, err)
	}
	return nil
}

// writePlan writes the cluster's configuration and returns the file's path.
func writePlan(config node.Config) (string, error) {
	plan := config.Settings.Path(host.PlanFile)
	raw, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(plan, raw, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("encode the cluster's configuration: %w", err)
	}
	return plan, nil
}

// awaitReady prints the supervisor's progress until the cluster is ready.
func awaitReady(ctx context.Context, dir string) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var seen int64
	began, lastOutput := time.Now(), time.Now()
	for {
		next, last, err := showProgress(dir, seen)
		if err != nil {
			return err
		}
		if last == node.Ready {
			return nil
		}
		if next != seen {
			lastOutput = time.Now()
		}
		seen = next
		if time.Since(lastOutput) > progressInterval {
			lastOutput = time.Now()
			printProgress("  still starting after %.0f s; see the logs in %s", time.Since(began).Seconds(),
				filepath.Join(dir, "logs"))
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
			return fmt.Errorf("%w: %w", errFailed, ctx.Err())
		case <-ticker.C:
		}
	}
}

// showProgress prints the events from an offset on, and returns the next offset and the state after the last event.
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
			printProgress("  %s", event.Message)
		}
	}
}
