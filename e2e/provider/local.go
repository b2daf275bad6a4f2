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

// The states of an embedded cluster. Any other state is "starting".
const (
	// Running is the state of a cluster that is ready.
	Running = "running"
	// Stopped is the state without a cluster.
	Stopped = "stopped"
	// Broken is the state of a cluster that has ended and left resources.
	Broken = "broken"
)

// Status is the output of `localcluster status`.
type Status struct {
	// State is Running, Stopped, Broken or "starting".
	State string `json:"state"`
	// Kubeconfig is the path of the cluster's kubeconfig.
	Kubeconfig string `json:"kubeconfig"`
	// Bin is the folder with kubectl and kubectl-argo-rollouts.
	Bin string `json:"bin"`
	// Logs is the folder with the components' logs. It is in the run directory, which belongs to the user and is deleted
	// with the cluster.
	Logs string `json:"logs"`
	// Node is the first process of the cluster's namespaces.
	Node int `json:"node"`
	// Transient is true if the cluster runs only as long as the process that started it. If that process is killed, the
	// next one takes the cluster down.
	Transient bool `json:"transient"`
	// StartSeconds is the time from the launch until the cluster was ready; 0 if unknown.
	StartSeconds float64 `json:"startSeconds"`
	// Addresses are the host's addresses that forward into the cluster, by name.
	Addresses map[string]string `json:"addresses"`
}

// LocalCluster runs the command localcluster.
type LocalCluster struct {
	// Path is the path of the binary.
	Path string
	// Repo is the repository of the cluster.
	Repo string
	// Terminal contains the standard streams for its progress and prompts.
	Terminal Terminal
	// Patience is the time limit of the status request, and of a command's exit after a signal.
	Patience time.Duration
}

// Terminal contains standard streams.
type Terminal struct {
	In  io.Reader
	Err io.Writer
}

// Status returns the state of the cluster.
func (l LocalCluster) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	out, err := l.output(ctx, "status", "-o", "json")
	if err != nil {
		return Status{}, err
	}
	var status Status
	if err := json.Unmarshal(out, &status); err != nil {
		return Status{}, fmt.Errorf("read the output of %s status: %w", l.Path, err)
	}
	return status, nil
}

// Estimate is what must be built before a cluster can start.
type Estimate struct {
	// Components are the missing components, Seconds is their build time on two cores.
	Components []string `json:"components"`
	Seconds    float64  `json:"seconds"`
}

// Estimate returns what must be built for a cluster with these add-ons. It builds nothing.
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

// command stays in the terminal's process group, because it may prompt for a password.
func (l LocalCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, l.Path, args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = l.Patience
	command.Env = append(os.Environ(), "LOCALCLUSTER_REPO="+l.Repo)
	return command
}
