package kube

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

// The states of a cluster that the demo tells apart. Another one is "starting".
const (
	// Running is the state of a cluster that is up and ready.
	Running = "running"
	// Stopped is the state where nothing is there.
	Stopped = "stopped"
	// Broken is the state where a cluster is gone and has left something.
	Broken = "broken"
)

// Cluster is what `localcluster status` says.
type Cluster struct {
	// State is Running, Stopped, Broken or "starting".
	State string `json:"state"`
	// Kubeconfig is the file that gives access to it.
	Kubeconfig string `json:"kubeconfig"`
	// Bin is the folder with kubectl and kubectl-argo-rollouts.
	Bin string `json:"bin"`
	// Logs is the folder with the components' logs. It lies in the run
	// directory, which is the user's and goes with the cluster.
	Logs string `json:"logs"`
	// Transient says that it was started by a demo, for as long as that demo runs.
	// If the demo is killed, the next one takes the cluster down.
	Transient bool `json:"transient"`
	// StartSeconds is how long the cluster took from its launch until it was
	// ready; 0 if that is not known.
	StartSeconds float64 `json:"startSeconds"`
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
func (l LocalCluster) Status(ctx context.Context) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
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

// Up starts the cluster, or brings this checkout's programs into one that runs,
// and returns when it is ready. A cluster that is asked for as transient, and is
// started for that, says so in its status until it is asked for otherwise.
func (l LocalCluster) Up(ctx context.Context, transient bool) error {
	if transient {
		return l.run(ctx, "up", "--transient")
	}
	return l.run(ctx, "up")
}

// Down takes the cluster away.
func (l LocalCluster) Down(ctx context.Context) error { return l.run(ctx, "down") }

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
