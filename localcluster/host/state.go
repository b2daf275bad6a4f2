// Package host is the outside of the embedded cluster: it starts the cluster's
// namespaces from a supervisor process, opens the few listeners that a user
// needs on the loopback address, keeps the record of what runs, and takes
// everything down again, whatever state it is in.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Phase is what a user is told about a cluster.
type Phase string

// The phases of a cluster. Broken means that a start failed, or that the
// supervisor is gone and left something to clean up.
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
	// Addresses are the host addresses that lead into the cluster, by name.
	Addresses map[string]string `json:"addresses,omitempty"`
	// Transient says that the cluster belongs to the command that started it. If
	// that command has died, nobody wants the cluster any more.
	Transient bool `json:"transient,omitempty"`
	// StartSeconds is how long the start took.
	StartSeconds float64 `json:"startSeconds,omitempty"`
	// Node is the first process of the cluster's namespaces, as the host counts
	// processes; 0 while there is none.
	Node int `json:"node,omitempty"`
	// Logs is the folder with the components' logs.
	Logs string `json:"logs,omitempty"`
	// Message is the last thing that happened.
	Message string `json:"message,omitempty"`
}

// The files of a run directory that the supervisor and those who wait for it
// share: what was asked for, what runs, what happened, and what was printed.
const (
	PlanFile     = "plan.json"
	StatusFile   = "status.json"
	ProgressFile = "progress.jsonl"
	LogFile      = "supervisor.log"
	lockFile     = "lock"
	// transientFile marks a transient cluster.
	transientFile = "transient"
)

// ReadStatus tells what runs in a run directory. The record on disk is believed
// only while the supervisor that wrote it holds its lock.
func ReadStatus(dir string) (Status, error) {
	holder, err := LockHolder(dir)
	if err != nil {
		return Status{}, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, StatusFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && holder == 0:
		return unrecorded(dir)
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
		status.State, status.Message = PhaseBroken, "the supervisor is gone"
	}
	return status, nil
}

// unrecorded tells a run directory that a start never got to describe from one
// that isn't there.
func unrecorded(dir string) (Status, error) {
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

// SetTransient says whether the cluster of a run directory belongs to the command
// that started it.
func SetTransient(dir string, transient bool) error {
	path := filepath.Join(dir, transientFile)
	var err error
	if transient {
		err = os.WriteFile(path, nil, 0o644)
	} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("say whom the cluster belongs to: %w", err)
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

// replaceFile writes a file so that a reader sees the old or the new content.
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
