// Package rolloutscontroller runs an Argo Rollouts controller with router plugins against a real API server without
// Pods. A ClusterSimulator reports the status that kubelets, Kubernetes controllers and Gateways would report.
package rolloutscontroller

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// Namespace is the namespace of the controller.
const Namespace = "argo-rollouts"

// Install applies Argo Rollouts from its install.yaml without the Deployment, the registration of plugins, which maps a
// name to a file, and further manifests from files.
func Install(
	ctx context.Context, admin rest.Interface, install string, plugins map[string]string, files ...string,
) error {
	raw, err := os.ReadFile(filepath.Clean(install))
	if err != nil {
		return err
	}
	// their ConfigMap is empty
	return InstallManifest(ctx, admin, withoutKinds(string(raw), "ConfigMap")+"\n---\n"+Registration(plugins), files...)
}

// Registration returns the ConfigMap that registers plugins, which maps a name to a file. A controller reads it at
// startup.
func Registration(plugins map[string]string) string {
	var registered strings.Builder
	for name, file := range plugins {
		fmt.Fprintf(&registered, "    - {name: %s, location: 'file://%s'}\n", name, file)
	}
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argo-rollouts-config, namespace: " + Namespace +
		"}\ndata:\n  trafficRouterPlugins: |\n" + registered.String()
}

// InstallManifest applies Argo Rollouts and its configuration from the text of a manifest, without the Deployment, and
// further manifests from files.
func InstallManifest(ctx context.Context, admin rest.Interface, manifest string, files ...string) error {
	manifests := []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: " + Namespace + "}}",
		withoutKinds(manifest, "Deployment", "Secret"),
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		manifests = append(manifests, string(text))
	}
	return apiserver.Apply(ctx, admin, Namespace, manifests...)
}

// withoutKinds removes the documents of kinds from a manifest.
func withoutKinds(manifest string, kinds ...string) string {
	documents := strings.Split(manifest, "\n---\n")
	documents = slices.DeleteFunc(documents, func(document string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(document, "\nkind: "+kind+"\n") })
	})
	return strings.Join(documents, "\n---\n")
}

// Controller is a running controller.
type Controller struct {
	process *exec.Cmd
	log     *os.File

	mu         sync.Mutex
	logOffset  int64             // bytes of the log that Reconciled has read
	reconciled map[string]string // the result of Reconciled, by namespace
}

// Start starts the controller as its ServiceAccount. No other controller may use folder, its working directory.
func Start(plane *apiserver.ControlPlane, binary, folder string, flags ...string) (*Controller, error) {
	return StartVia(plane, plane.Address(), binary, folder, flags...)
}

// StartAs is Start as the user of a token.
func StartAs(plane *apiserver.ControlPlane, token, binary, folder string, flags ...string) (*Controller, error) {
	return start(plane, token, plane.Address(), binary, folder, flags...)
}

// StartVia is Start with plugins that connect to the API server by another address, which forwards the connections.
func StartVia(
	plane *apiserver.ControlPlane, address, binary, folder string, flags ...string,
) (*Controller, error) {
	return start(plane, apiserver.RolloutsToken, address, binary, folder, flags...)
}

// start starts the controller as the user of token, with plugins that connect to the API server by address.
func start(
	plane *apiserver.ControlPlane, token, address, binary, folder string, flags ...string,
) (*Controller, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	ofPlugins := filepath.Join(folder, "kubeconfig-plugins")
	if err := errors.Join(plane.WriteKubeconfig(kubeconfig, token),
		plane.WriteKubeconfigVia(address, ofPlugins, token)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Clean(filepath.Join(folder, "controller.log")))
	if err != nil {
		return nil, err
	}
	process := exec.Command(binary, append([]string{ //nolint:noctx,gosec // ended by Kill; the developer names the program
		// The controller listens on all addresses. No test connects, so the kernel may choose the ports.
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--metricsPort=0", "--healthzPort=0",
	}, flags...)...)
	process.Dir, process.Stdout, process.Stderr = folder, log, log
	// The plugin inherits the environment, which contains its kubeconfig.
	process.Env = append(os.Environ(), "KUBECONFIG="+ofPlugins, "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=")
	return &Controller{process: process, log: log, reconciled: map[string]string{}}, process.Start()
}

// Kill kills the controller and its plugins. A killed controller does not stop its plugins.
func (c *Controller) Kill() error {
	if c.process.ProcessState != nil {
		return nil
	}
	plugins := children(c.process.Process.Pid)
	err := c.process.Process.Kill()
	_ = c.process.Wait() // SIGKILL is not an error
	for _, plugin := range plugins {
		_ = syscall.Kill(plugin, syscall.SIGKILL) // the process may have exited
	}
	return errors.Join(err, c.log.Close())
}

// children returns the child processes of a process (proc_pid_task_children(5)).
func children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(filepath.Clean(list))
		if err != nil {
			continue // the thread has exited, and another thread has its children
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// reconcileLine matches the controller's log lines at the begin and at the end of a reconcile.
var reconcileLine = regexp.MustCompile(`msg="(Started syncing rollout|Reconciliation completed)" ` +
	`generation=\d+ namespace=(\S+) resourceVersion=(\d+) `)

// Reconciled returns the resource version of the last completed reconcile of a namespace's only Rollout, or "" during a
// reconcile.
func (c *Controller) Reconciled(namespace string) (version string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	log, err := os.Open(c.log.Name())
	if err != nil {
		return "", err
	}
	defer log.Close()
	if _, err := log.Seek(c.logOffset, io.SeekStart); err != nil {
		return "", err
	}
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return c.reconciled[namespace], nil // the last line may be incomplete
		}
		if err != nil {
			return "", err
		}
		c.logOffset += int64(len(line))
		if match := reconcileLine.FindStringSubmatch(line); match != nil {
			if c.reconciled[match[2]] = ""; match[1] == "Reconciliation completed" {
				c.reconciled[match[2]] = match[3]
			}
		}
	}
}

// Reconciles returns the number of completed reconciles in the controller's log.
func (c *Controller) Reconciles() (int, error) {
	written, err := os.ReadFile(c.log.Name())
	return bytes.Count(written, []byte(`msg="Reconciliation completed"`)), err
}

// LogLines returns the last lines of the controller's log that contain text, at most limit of them.
func (c *Controller) LogLines(text string, limit int) (string, error) {
	written, err := os.ReadFile(c.log.Name())
	if err != nil {
		return "", err
	}
	lines := slices.DeleteFunc(strings.Split(string(written), "\n"),
		func(line string) bool { return !strings.Contains(line, text) })
	return strings.Join(lines[max(0, len(lines)-limit):], "\n"), nil
}
