package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Running is the state of a cluster that is up and ready.
const Running = "running"

// Cluster is what `localcluster status` says.
type Cluster struct {
	// State is "running", "stopped" or "broken".
	State string `json:"state"`
	// Kubeconfig is the file that gives access to it.
	Kubeconfig string `json:"kubeconfig"`
	// Bin is the folder with kubectl and kubectl-argo-rollouts.
	Bin string `json:"bin"`
	// Addresses are where the host reaches it.
	Addresses struct {
		// APIServer is the address of the API server.
		APIServer string `json:"apiserver"`
		// Proxy leads to Service kedify-proxy of the demo's namespace.
		Proxy string `json:"proxy"`
	} `json:"addresses"`
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
}

// Terminal are standard streams.
type Terminal struct {
	In  io.Reader
	Err io.Writer
}

// statusTimeout bounds the question for the state.
const statusTimeout = 30 * time.Second

// Status asks for the state of the cluster.
func (l LocalCluster) Status(ctx context.Context) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	command := l.command(ctx, "status", "-o", "json")
	command.Stderr = l.Terminal.Err
	out, err := command.Output()
	if err != nil {
		return Cluster{}, fmt.Errorf("%s status: %w", l.Path, err)
	}
	var cluster Cluster
	if err := json.Unmarshal(out, &cluster); err != nil {
		return Cluster{}, fmt.Errorf("read what %s status says: %w", l.Path, err)
	}
	return cluster, nil
}

// Up starts the cluster and returns when it is ready.
func (l LocalCluster) Up(ctx context.Context) error { return l.run(ctx, "up") }

// Down takes the cluster away.
func (l LocalCluster) Down(ctx context.Context) error { return l.run(ctx, "down") }

func (l LocalCluster) run(ctx context.Context, verb string) error {
	command := l.command(ctx, verb)
	command.Stdin, command.Stdout, command.Stderr = l.Terminal.In, l.Terminal.Err, l.Terminal.Err
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", l.Path, verb, err)
	}
	return nil
}

// command stays in the terminal's process group: it may ask for a password.
func (l LocalCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, l.Path, args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	command.Env = append(os.Environ(), "LOCALCLUSTER_REPO="+l.Repo)
	return command
}
