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
	errAnswer    = errors.New("status is not 200")
	errListeners = errors.New("envoy has no listener with this name and a port")
	errBootstrap = errors.New("the installed bootstrap does not contain the text to replace: update the text")
)

// Binary returns the path of Envoy from the environment variable ENVOY_BIN. Without it the test fails.
func Binary(tb testing.TB) string {
	tb.Helper()
	file := os.Getenv("ENVOY_BIN")
	if file == "" {
		tb.Fatal("ENVOY_BIN is not set: run `make test-parts`, or set it to the path of an envoy binary of version 1.40")
	}
	return file
}

// InstalledBootstrap returns the bootstrap of config/kedify-proxy in a repository, with changes as Change makes them.
func InstalledBootstrap(repository string, changes ...[2]string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(filepath.Clean(repository), "config/kedify-proxy/configmap.yaml"))
	if err != nil {
		return "", err
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(manifest, &object); err != nil {
		return "", fmt.Errorf("config/kedify-proxy/configmap.yaml: %w", err)
	}
	return Change(object.Data["envoy.yaml"], changes...)
}

// Change makes changes to a bootstrap. Each replaces its first text, which must occur, by its second.
func Change(bootstrap string, changes ...[2]string) (string, error) {
	for _, change := range changes {
		if !strings.Contains(bootstrap, change[0]) {
			return "", fmt.Errorf("%w: %q", errBootstrap, change[0])
		}
		bootstrap = strings.ReplaceAll(bootstrap, change[0], change[1])
	}
	return bootstrap, nil
}

// Envoy is a running Envoy.
type Envoy struct {
	*program.Process

	adminFile string // Envoy writes the address of its admin interface to it
}

// Start starts Envoy with a bootstrap and a number of workers, and returns when Envoy is ready, with all initial xDS
// resources. Its files are created in folder. Envoy is killed when ctx ends.
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

// Run starts the Envoy of ENVOY_BIN as Start does. Envoy stops with the test.
func Run(tb testing.TB, bootstrap string, workers int, extraArgs ...string) *Envoy {
	tb.Helper()
	e, err := Start(context.WithoutCancel(tb.Context()), Binary(tb), tb.TempDir(), bootstrap, workers, extraArgs...)
	if err != nil {
		tb.Fatal(err)
	}
	e.StopWithTest(tb)
	return e
}

// Admin sends a request to the admin interface. A status other than 200 is an error.
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

// ListenerAddress returns the address of the listener with a name.
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
