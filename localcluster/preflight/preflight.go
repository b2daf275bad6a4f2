// Package preflight checks, before a long build, whether the embedded cluster can run on this machine. For each failed
// check it prints a fix. The checks are a shell script, so that make can run them before a Go program exists.
package preflight

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

//go:embed preflight.sh
var script []byte

// ErrNotFit is wrapped by the error with the reasons why a machine cannot run the cluster.
var ErrNotFit = errors.New("preflight")

// Release returns the host's distribution and version, such as "debian-12".
func Release() (string, error) {
	raw, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("read the distribution's name: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"`)
	}
	return fields["ID"] + "-" + fields["VERSION_ID"], nil
}

// Building is what has to be built before the cluster can run.
type Building string

// What may have to be built: nothing, this project's programs, or the programs and the cluster's components.
const (
	Nothing    Building = ""
	Programs   Building = "programs"
	Components Building = "parts"
)

// Check checks the machine. The error contains each failed check and its fix. Cache is the folder for built programs
// and running clusters.
func Check(ctx context.Context, cache string, building Building) error {
	command := exec.CommandContext(ctx, "sh", "-s", cache, string(building))
	command.Stdin = bytes.NewReader(script)
	printed, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotFit, bytes.TrimSpace(printed))
	}
	return nil
}
