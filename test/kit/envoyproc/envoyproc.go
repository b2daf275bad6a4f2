// Package envoyproc runs Envoy as a process of a test or benchmark.
package envoyproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

var (
	errAnswer    = errors.New("not answered with 200")
	errListeners = errors.New("envoy has no such listener with a port")
	errBootstrap = errors.New("the installed bootstrap lacks what is to be replaced: bring the two together")
)

// Binary is the file of Envoy, which the environment variable ENVOY_BIN names. Without it the test fails.
func Binary(tb testing.TB) string {
	tb.Helper()
	file := os.Getenv("ENVOY_BIN")
	if file == "" {
		tb.Fatal("ENVOY_BIN is not set: run `make test-parts`, or set it to the path of an envoy binary of version 1.40")
	}
	return file
}

// InstalledBootstrap is the bootstrap of config/kedify-proxy, in the repository at that path. Of each change it replaces
// the first text, which has to be there, by the second.
func InstalledBootstrap(repository string, changes ...[2]string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(filepath.Clean(repository), "config/kedify-proxy/configmap.yaml"))
	if err != nil {
		return "", err
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(manifest, &object); err != nil {
		return "", fmt.Errorf("config/kedify-proxy/configmap.yaml: %w", err)
	}
	text := object.Data["envoy.yaml"]
	for _, change := range changes {
		if !strings.Contains(text, change[0]) {
			return "", fmt.Errorf("%w: %q", errBootstrap, change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	return text, nil
}

// Envoy is a running Envoy.
type Envoy struct {
	*program.Process

	adminFile string // has the address of the admin interface, once that listens
}

// Start starts Envoy with a bootstrap and so many workers, and returns when it is ready: when it has heard of everything
// that it needs. Its files come into folder. It ends with ctx at the latest. more are further arguments.
func Start(
	ctx context.Context, binary, folder, bootstrap string, workers int, extraArgs ...string,
) (*Envoy, error) {
	file := filepath.Join(folder, "envoy.yaml")
	if err := os.WriteFile(file, []byte(bootstrap), 0o600); err != nil {
		return nil, err
	}
	e := &Envoy{adminFile: filepath.Join(folder, "admin")}
	var err error
	e.Process, err = program.Start(ctx, folder, binary, append(extraArgs, "--config-path", file,
		"--admin-address-path", e.adminFile, "--concurrency", strconv.Itoa(workers),
		"--disable-hot-restart", "--log-level", "warning")...)
	if err != nil {
		return nil, err
	}
	err = e.Await(ctx, func(ctx context.Context) error {
		_, err := e.Admin(ctx, "/ready")
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.Kill())
	}
	return e, nil
}

// Run starts the Envoy of ENVOY_BIN as Start does, and ends it with the test.
func Run(tb testing.TB, bootstrap string, workers int, extraArgs ...string) *Envoy {
	tb.Helper()
	e, err := Start(context.WithoutCancel(tb.Context()), Binary(tb), tb.TempDir(), bootstrap, workers, extraArgs...)
	if err != nil {
		tb.Fatal(err)
	}
	e.StopWithTest(tb)
	return e
}

// Admin asks the admin interface. An answer other than 200 is an error.
func (e *Envoy) Admin(ctx context.Context, path string) ([]byte, error) {
	address, err := os.ReadFile(e.adminFile)
	if err != nil {
		return nil, fmt.Errorf("address of the admin interface: %w", err)
	}
	answer, err := traffic.Get(ctx, "http://"+string(address)+path, "", nil)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%w: %s, %d %s", errAnswer, path, answer.Status, answer.Body)
	}
	return answer.Body, err
}

// ListenerAddress is the address of the listener of a name.
func (e *Envoy) ListenerAddress(ctx context.Context, name string) (string, error) {
	var list struct {
		Listeners []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	body, err := e.Admin(ctx, "/listeners?format=json")
	if err := errors.Join(err, json.Unmarshal(body, &list)); err != nil {
		return "", err
	}
	for _, listener := range list.Listeners {
		if socket := listener.Local.Socket; listener.Name == name && socket.Port > 0 {
			return net.JoinHostPort(socket.Address, strconv.Itoa(socket.Port)), nil
		}
	}
	return "", fmt.Errorf("%w %s: %s", errListeners, name, body)
}
