package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// The states of an embedded cluster that are told apart. Another one is
// "starting".
const (
	// Running is the state of a cluster that is up and ready.
	Running = "running"
	// Stopped is the state where nothing is there.
	Stopped = "stopped"
	// Broken is the state where a cluster is gone and has left something.
	Broken = "broken"
)

// Status is what `localcluster status` says.
type Status struct {
	// State is Running, Stopped, Broken or "starting".
	State string `json:"state"`
	// Kubeconfig is the file that gives access to the cluster.
	Kubeconfig string `json:"kubeconfig"`
	// Bin is the folder with kubectl and kubectl-argo-rollouts.
	Bin string `json:"bin"`
	// Logs is the folder with the components' logs. It lies in the run
	// directory, which is the user's and goes with the cluster.
	Logs string `json:"logs"`
	// Node is the first process of the cluster's namespaces.
	Node int `json:"node"`
	// Transient says that the cluster was started for as long as the process runs
	// that asked for it. If that process is killed, the next one takes the cluster
	// down.
	Transient bool `json:"transient"`
	// StartSeconds is how long the cluster took from its launch until it was
	// ready; 0 if that is not known.
	StartSeconds float64 `json:"startSeconds"`
	// Addresses are those of the host that lead into the cluster, by name.
	Addresses map[string]string `json:"addresses"`
}

// LocalCluster is the command localcluster.
type LocalCluster struct {
	// Path is the binary.
	Path string
	// Repo is the repository whose cluster is meant.
	Repo string
	// Terminal are the standard streams that its progress goes to and its
	// questions come from.
	Terminal Terminal
	// Patience bounds the question for the state, and how long a command that
	// is told to end may take.
	Patience time.Duration
}

// Terminal are standard streams.
type Terminal struct {
	In  io.Reader
	Err io.Writer
}

// Status asks for the state of the cluster.
func (l LocalCluster) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	out, err := l.output(ctx, "status", "-o", "json")
	if err != nil {
		return Status{}, err
	}
	var status Status
	if err := json.Unmarshal(out, &status); err != nil {
		return Status{}, fmt.Errorf("read what %s status says: %w", l.Path, err)
	}
	return status, nil
}

// Estimate is what has to be built before a cluster can start.
type Estimate struct {
	// Components are the missing components, Seconds is how long they take on two cores.
	Components []string `json:"components"`
	Seconds    float64  `json:"seconds"`
}

// Estimate asks what a cluster with these add-ons lacks. It builds nothing.
func (l LocalCluster) Estimate(ctx context.Context, addons ...string) (Estimate, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	args := []string{"build", "--estimate"}
	for _, addon := range addons {
		args = append(args, "--with", addon)
	}
	out, err := l.output(ctx, args...)
	if err != nil {
		return Estimate{}, err
	}
	var e Estimate
	if err := json.Unmarshal(out, &e); err != nil {
		return e, fmt.Errorf("read the estimate of %s: %w", l.Path, err)
	}
	return e, nil
}

// output runs a command and returns its standard output.
func (l LocalCluster) output(ctx context.Context, args ...string) ([]byte, error) {
	command := l.command(ctx, args...)
	command.Stderr = l.Terminal.Err
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", l.Path, strings.Join(args, " "), err)
	}
	return out, nil
}

// run runs a command in the user's terminal.
func (l LocalCluster) run(ctx context.Context, args ...string) error {
	command := l.command(ctx, args...)
	command.Stdin, command.Stdout, command.Stderr = l.Terminal.In, l.Terminal.Err, l.Terminal.Err
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", l.Path, strings.Join(args, " "), err)
	}
	return nil
}

// command stays in the terminal's process group: it may ask for a password.
func (l LocalCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, l.Path, args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = l.Patience
	command.Env = append(os.Environ(), "LOCALCLUSTER_REPO="+l.Repo)
	return command
}
