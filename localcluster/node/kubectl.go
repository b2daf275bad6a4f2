package node

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// Kubectl is the program that installs objects into a cluster.
type Kubectl struct {
	// Program is its path.
	Program string
	// Env is its environment.
	Env []string
}

// retryPause is the pause between two attempts of a command.
const retryPause = time.Second

// Run runs one command. The error of a failed one contains its output. A command that failed because the API server was
// busy is repeated until the command's own timeout: every step of an installation may run twice.
func (k Kubectl) Run(ctx context.Context, args []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		command := exec.CommandContext(ctx, k.Program, args...)
		command.Env = k.Env
		out, err := command.CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
		if !isRetryable(out) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// isRetryable reports whether kubectl's error means that the same request may succeed later. It checks the reason of a
// status (k8s.io/apimachinery/pkg/apis/meta/v1, StatusReason) and etcd's errors.
func isRetryable(out []byte) bool {
	return slices.ContainsFunc([]string{
		"Error from server (Timeout)", "Error from server (ServerTimeout)", "Error from server (ServiceUnavailable)",
		"Error from server (TooManyRequests)", "etcdserver: request timed out", "connection refused",
	}, func(reason string) bool { return bytes.Contains(out, []byte(reason)) })
}
