// Package host is the part of the embedded cluster that runs outside of its namespaces. Its supervisor process starts
// the namespaces, opens the few listeners that a user needs on the loopback address, records what runs, and removes all
// of it in any state.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Phase is the state of a cluster as users see it.
type Phase string

// The phases of a cluster. Broken means that a start failed, or that the supervisor died and left something to clean
// up.
const (
	PhaseStopped  Phase = "stopped"
	PhaseStarting Phase = "starting"
	PhaseRunning  Phase = "running"
	PhaseBroken   Phase = "broken"
)

// Status is a cluster's state as shown by `localcluster status -o json`.
type Status struct {
	// State is the cluster's phase.
	State Phase `json:"state"`
	// Kubeconfig is the administrator's kubeconfig for use on the host.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Bin is the folder with kubectl and its plugins.
	Bin string `json:"bin,omitempty"`
	// Addresses are the host addresses of forwards into the cluster, by name.
	Addresses map[string]string `json:"addresses,omitempty"`
	// Transient reports whether the cluster belongs to the command that started it. If that command has died, the
	// cluster is no longer needed.
	Transient bool `json:"transient,omitempty"`
	// StartSeconds is the duration of the start.
	StartSeconds float64 `json:"startSeconds,omitempty"`
	// Node is the process ID, on the host, of the first process of the cluster's namespaces; 0 if there is none.
	Node int `json:"node,omitempty"`
	// Logs is the folder with the components' logs.
	Logs string `json:"logs,omitempty"`
	// Message is the last event.
	Message string `json:"message,omitempty"`
}

// Files of a run directory that the supervisor and waiting commands share: the configuration, the state, the events,
// and the output.
const (
	PlanFile     = "plan.json"
	StatusFile   = "status.json"
	ProgressFile = "progress.jsonl"
	LogFile      = "supervisor.log"
	lockFile     = "lock"
	// transientFile marks a transient cluster.
	transientFile = "transient"
)

// ReadStatus returns the state of a run directory. The record on disk is valid only while the supervisor that wrote it
// holds its lock.
func ReadStatus(dir string) (Status, error) {
	holder, err := LockHolder(dir)
	if err != nil {
		return Status{}, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, StatusFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && holder == 0:
		return statusWithoutRecord(dir)
	case errors.Is(err, fs.ErrNotExist):
		return Status{State: PhaseStarting}, nil
	case err != nil:
		return Status{}, fmt.Errorf("read the cluster's status: %w", err)
	}
	var status Status
	if err := json.Unmarshal(raw, &status); err != nil {
		return Status{}, fmt.Errorf("read the cluster's status: %w", err)
	}
	_, err = os.Stat(filepath.Join(dir, transientFile))
	status.Transient = err == nil
	if holder == 0 && status.State != PhaseBroken {
		status.State, status.Message = PhaseBroken, "the supervisor has died"
	}
	return status, nil
}

// statusWithoutRecord returns the state of a run directory without a record: of a start that failed early, or of none.
func statusWithoutRecord(dir string) (Status, error) {
	_, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Status{State: PhaseStopped}, nil
	case err != nil:
		return Status{}, fmt.Errorf("look for the cluster's files: %w", err)
	default:
		return Status{State: PhaseBroken, Message: "an earlier start left its files"}, nil
	}
}

// SetTransient records whether the cluster of a run directory belongs to the command that started it.
func SetTransient(dir string, transient bool) error {
	path := filepath.Join(dir, transientFile)
	var err error
	if transient {
		err = os.WriteFile(path, nil, 0o644)
	} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("record the cluster's owner: %w", err)
	}
	return nil
}

func writeStatus(dir string, status Status) error {
	raw, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's status: %w", err)
	}
	return replaceFile(filepath.Join(dir, StatusFile), raw)
}

// replaceFile writes a file atomically: a reader sees the old or the new content.
func replaceFile(path string, content []byte) error {
	next := path + ".next"
	if err := os.WriteFile(next, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
