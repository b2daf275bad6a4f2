// Package kube drives a cluster like a user: it runs the commands kubectl, kubectl-argo-rollouts and localcluster. It
// does not depend on a Kubernetes library.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Runner runs commands.
type Runner interface {
	// Run runs a command and returns its standard output. If the command fails, the error contains its standard error.
	Run(ctx context.Context, args ...string) (string, error)
	// Stream runs a command and passes its standard output to read as it arrives. It returns when both have ended. When
	// ctx ends or read returns, it terminates the command.
	Stream(ctx context.Context, read func(io.Reader) error, args ...string) error
}

// stopTimeout is how long a command may take to exit after SIGTERM.
const stopTimeout = 2 * time.Second

// Exec runs commands as processes.
type Exec struct {
	// Env is the environment of the processes.
	Env []string
}

// Environment returns the environment for kubectl: base with bin first in PATH, the kubeconfig, and a cache folder. The
// separate folder keeps the user's caches free of temporary clusters.
func Environment(base []string, bin, kubeconfig, cache string) []string {
	env := make([]string, 0, len(base)+3)
	path := os.Getenv("PATH")
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH":
			path = value
		case "KUBECONFIG", "KUBECACHEDIR":
		default:
			env = append(env, entry)
		}
	}
	return append(env, "PATH="+bin+string(os.PathListSeparator)+path, "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+cache)
}

// Run implements Runner.
func (e Exec) Run(ctx context.Context, args ...string) (string, error) {
	command := e.command(ctx, args)
	var out, problem bytes.Buffer
	command.Stdout, command.Stderr = &out, &problem
	if err := command.Run(); err != nil {
		return out.String(), failure(ctx, args, err, problem.String())
	}
	return out.String(), nil
}

// Stream implements Runner.
func (e Exec) Stream(ctx context.Context, read func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	command := e.command(ctx, args)
	var problem bytes.Buffer
	command.Stderr = &problem
	out, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	readErr := read(out)
	if readErr != nil {
		cancel() // no reader is left: the command would block
	}
	_, _ = io.Copy(io.Discard, out) // to EOF, so that Wait may close it
	err = command.Wait()
	if readErr != nil {
		return fmt.Errorf("read the output of %s: %w", strings.Join(args, " "), readErr)
	}
	if err != nil {
		return failure(ctx, args, err, problem.String())
	}
	return nil
}

// command returns a process that receives SIGTERM when ctx ends. It has its own process group: a Ctrl-C in the terminal
// is for the demo, which then ends its commands in order.
func (e Exec) command(ctx context.Context, args []string) *exec.Cmd {
	command := exec.CommandContext(ctx, e.lookPath(args[0]), args[1:]...)
	command.Env = e.Env
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTimeout
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// lookPath finds a command in the PATH of e.Env. exec.Command uses the PATH of this process.
func (e Exec) lookPath(name string) string {
	if strings.ContainsRune(name, os.PathSeparator) {
		return name
	}
	for _, entry := range e.Env {
		path, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
			if path, err := exec.LookPath(dir + string(os.PathSeparator) + name); err == nil {
				return path
			}
		}
	}
	return name
}

// failure returns an error with the failed command and its standard error.
func failure(ctx context.Context, args []string, err error, stderr string) error {
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	stderr = strings.TrimSpace(stderr)
	if stderr == "" {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr)
}
