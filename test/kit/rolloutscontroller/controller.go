// Package rolloutscontroller runs a real Argo Rollouts controller with router plugins against a real API server without Pods, and reports in the place of kubelets,
// the controllers of Kubernetes and Gateways what these would.
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

// Namespace is where the controller is installed.
const Namespace = "argo-rollouts"

// Install applies what users install: Argo Rollouts from its install.yaml without the Deployment, the registration of plugins (name to file), and further manifests
// from files.
func Install(ctx context.Context, admin rest.Interface, install string, plugins map[string]string, files ...string) error {
	raw, err := os.ReadFile(filepath.Clean(install))
	if err != nil {
		return err
	}
	return InstallManifest(ctx, admin, withoutKinds(string(raw), "ConfigMap")+"\n---\n"+Registration(plugins), files...) // theirs is empty
}

// Registration is the ConfigMap that registers plugins, name to file. A controller reads it when it starts.
func Registration(plugins map[string]string) string {
	var registered strings.Builder
	for name, file := range plugins {
		fmt.Fprintf(&registered, "    - {name: %s, location: 'file://%s'}\n", name, file)
	}
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argo-rollouts-config, namespace: " + Namespace + "}\ndata:\n  trafficRouterPlugins: |\n" + registered.String()
}

// InstallManifest applies Argo Rollouts and its configuration from the text of a manifest, without the Deployment, and further manifests from files.
func InstallManifest(ctx context.Context, admin rest.Interface, manifest string, files ...string) error {
	manifests := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: " + Namespace + "}}", withoutKinds(manifest, "Deployment", "Secret")}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		manifests = append(manifests, string(text))
	}
	return apiserver.Apply(ctx, admin, Namespace, manifests...)
}

// withoutKinds leaves the documents of kinds out of a manifest.
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
	logOffset  int64             // how much of the log Reconciled has read
	reconciled map[string]string // what Reconciled returns, by namespace
}

// Start starts the controller of that binary as its ServiceAccount, with folder as its home, which must not be another one's.
func Start(plane *apiserver.ControlPlane, binary, folder string, flags ...string) (*Controller, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := plane.WriteKubeconfig(kubeconfig, apiserver.RolloutsToken); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Clean(filepath.Join(folder, "controller.log")))
	if err != nil {
		return nil, err
	}
	process := exec.Command(binary, append([]string{ //nolint:noctx,gosec // ended by End; the developer names the program
		// It listens on all addresses. Nobody asks it there, so the kernel may choose the ports.
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--metricsPort=0", "--healthzPort=0",
	}, flags...)...)
	process.Dir, process.Stdout, process.Stderr = folder, log, log
	// The plugin inherits the environment, and finds the API server by it.
	process.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=")
	return &Controller{process: process, log: log, reconciled: map[string]string{}}, process.Start()
}

// Kill ends the controller by SIGKILL, and its plugins, which would go on: they are told to end by a controller that ends in good order only.
func (c *Controller) Kill() error {
	if c.process.ProcessState != nil {
		return nil
	}
	plugins := children(c.process.Process.Pid)
	err := c.process.Process.Kill()
	_ = c.process.Wait() // it was killed
	for _, plugin := range plugins {
		_ = syscall.Kill(plugin, syscall.SIGKILL) // it may have ended
	}
	return errors.Join(err, c.log.Close())
}

// children are the processes that a process has started (proc_pid_task_children(5)).
func children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(filepath.Clean(list))
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// reconcileLine matches what the controller logs when it begins and when it ends a reconcile.
var reconcileLine = regexp.MustCompile(`msg="(Started syncing rollout|Reconciliation completed)" generation=\d+ namespace=(\S+) resourceVersion=(\d+) `)

// Reconciled returns the resource version of a namespace's only Rollout with which the controller has ended its last reconcile; empty while there is one.
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
			return c.reconciled[namespace], nil // the last line may not be whole
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

// Reconciles returns how many reconciles the controller has ended, by its log.
func (c *Controller) Reconciles() (int, error) {
	written, err := os.ReadFile(c.log.Name())
	return bytes.Count(written, []byte(`msg="Reconciliation completed"`)), err
}

// LogLines returns the last lines of the controller's log with that text in them.
func (c *Controller) LogLines(text string, most int) (string, error) {
	written, err := os.ReadFile(c.log.Name())
	if err != nil {
		return "", err
	}
	lines := slices.DeleteFunc(strings.Split(string(written), "\n"), func(line string) bool { return !strings.Contains(line, text) })
	return strings.Join(lines[max(0, len(lines)-most):], "\n"), nil
}
