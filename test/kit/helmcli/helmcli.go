// Package helmcli runs the helm program of tools/helm.
package helmcli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Variable is the environment variable with the path of helm.
const Variable = "HELM_BIN"

// Run runs helm with the settings in folder home, which may be empty, and with a kubeconfig file. It returns the
// standard output. The error contains what helm printed to the standard error.
func Run(ctx context.Context, home, kubeconfig string, args ...string) (string, error) {
	binary := os.Getenv(Variable)
	if binary == "" {
		return "", fmt.Errorf("%s is not set: run `make test-one PKG=./test/chart`, or set it to the path of helm", Variable)
	}
	command := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the built program
	// The user's own settings, plugins and cluster have no effect.
	command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %v: %w\n%s", args, err, stderr.String())
	}
	return stdout.String(), nil
}
