package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrNoKubectl means that kubectl is not installed.
var ErrNoKubectl = errors.New("kubectl is not on PATH: install it, or forward port 9091 of the interceptor yourself")

// killDelay is how long kubectl may take to end.
const killDelay = 2 * time.Second

// Kubectl forwards ports by kubectl, with the same flags as this program.
type Kubectl struct {
	// Path is the program.
	Path string
	// Namespace is that of the Pods.
	Namespace string
	// Flags are the flags of the connection, such as --context=NAME.
	Flags []string
}

// NewKubectl returns the kubectl on PATH.
func NewKubectl(namespace string, flags []string) (Kubectl, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return Kubectl{}, ErrNoKubectl
	}
	return Kubectl{Path: path, Namespace: namespace, Flags: flags}, nil
}

// Forward implements Options.Forward.
func (k Kubectl) Forward(ctx context.Context, pod string, local int, ready func(local int)) error {
	ports := ":" + strconv.Itoa(Port)
	if local != 0 {
		ports = strconv.Itoa(local) + ports
	}
	arguments := append([]string{
		"port-forward", "--namespace=" + k.Namespace, "--address=127.0.0.1", "pod/" + pod, ports,
	}, k.Flags...)
	command := exec.CommandContext(ctx, k.Path, arguments...) //nolint:gosec // It is the kubectl of the user.
	command.WaitDelay = killDelay
	var messages bytes.Buffer
	command.Stderr = &messages
	out, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run kubectl: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("run kubectl: %w", err)
	}
	isReady := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if port, isLine := localPort(lines.Text()); isLine && !isReady {
			isReady = true
			ready(port)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("kubectl port-forward: %s: %w", lastLine(messages.String()), err)
	}
	return errors.New("kubectl port-forward has ended")
}

// localPort returns the local port in a line of kubectl, such as "Forwarding from 127.0.0.1:40123 -> 9091".
func localPort(line string) (port int, isLine bool) {
	rest, isLine := strings.CutPrefix(line, "Forwarding from 127.0.0.1:")
	text, _, hasArrow := strings.Cut(rest, " -> ")
	port, err := strconv.Atoi(text)
	return port, isLine && hasArrow && err == nil
}

// lastLine returns the last line of a text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
