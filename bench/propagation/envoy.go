package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
)

// startLimit bounds how long a process may take until it is ready.
const startLimit = time.Minute

// process is a program that runs, with its log in a file.
type process struct{ command *exec.Cmd }

// launch starts a program, which ends with ctx at the latest.
func launch(ctx context.Context, log, binary string, args ...string) (*process, error) {
	out, err := os.Create(filepath.Clean(log))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	command := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the developer names the program
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	return &process{command}, nil
}

// stop kills the program and waits for its end.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.command.Wait() // It was killed, which Wait calls an error.
	return nil
}

// startEnvoy starts Envoy with the bootstrap of config/kedify-proxy, but for the addresses, and returns its address for administration.
func (s *stage) startEnvoy(ctx context.Context, name string, xdsPort int) (running *process, admin string, err error) {
	manifest, err := os.ReadFile(filepath.Clean(filepath.Join(s.repo, "config/kedify-proxy/configmap.yaml")))
	if err != nil {
		return nil, "", err
	}
	var object corev1.ConfigMap
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		return nil, "", err
	}
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return nil, "", err
	}
	adminPort := strconv.Itoa(ports[0])
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
	text := object.Data["envoy.yaml"]
	for _, change := range [][2]string{
		{"address: " + service + ", port_value: 5678", "address: 127.0.0.1, port_value: " + strconv.Itoa(xdsPort)},
		{"address: " + service, "address: 127.0.0.1"},
		{"address: 0.0.0.0, port_value: 9901", "address: 127.0.0.1, port_value: " + adminPort},
	} {
		if !strings.Contains(text, change[0]) {
			return nil, "", fmt.Errorf("config/kedify-proxy/configmap.yaml lacks %q, which this benchmark replaces: bring the two together", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	file := filepath.Join(s.folder, name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	running, err = launch(ctx, filepath.Join(s.folder, name+".log"), s.envoy, "--config-path", file, "--disable-hot-restart", "--concurrency", "1",
		"--log-level", "warning")
	return running, "127.0.0.1:" + adminPort, err
}

// await asks for a page until it is answered with 200.
func await(ctx context.Context, what, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client := &http.Client{Timeout: startLimit}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%w: %s", errNotReady, response.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w", what, startLimit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// errNotReady says that something answers, but not 200.
var errNotReady = errors.New("not ready")
