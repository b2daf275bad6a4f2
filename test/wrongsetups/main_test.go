package wrongsetups_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

const (
	// manifests is the folder of this project's manifests.
	manifests = "../../config/"
	// deploymentPath is the API path of the controller's Deployment.
	deploymentPath = "/apis/apps/v1/namespaces/" + rolloutscontroller.Namespace + "/deployments/argo-rollouts"
)

// cluster is an API server with the objects of an installation.
type cluster struct {
	*apiserver.ControlPlane

	admin      *rest.RESTClient
	folder     string // contains the built programs and the controllers' home folders
	kubeconfig string // of an administrator
	controller *rolloutscontroller.Controller
	home       string // the home folder of the controller
	starts     int
}

// shared is the cluster of all tests.
var shared cluster

func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		os.Exit(m.Run())
	}
	programs := []string{"gatewayapi-plugin", "rollouts-plugin-kedify", "kubectl-http_canary"}
	os.Exit(apiserver.RunTests(m, programs, func(ctx context.Context, s apiserver.Shared) (func(int) error, error) {
		shared = cluster{
			ControlPlane: s.ControlPlane, admin: s.Admin, folder: s.Folder,
			kubeconfig: filepath.Join(s.Folder, "kubeconfig"),
		}
		for _, name := range []string{"ROLLOUTS_CONTROLLER_BIN", "ROLLOUTS_INSTALL_YAML", "GATEWAY_API_CRDS", "KUBECTL_BIN", kedaVariable} {
			if os.Getenv(name) == "" {
				return nil, fmt.Errorf("%s is not set: run `make test-one PKG=./test/wrongsetups`", name)
			}
		}
		err := errors.Join(s.WriteKubeconfig(shared.kubeconfig, apiserver.AdminToken), shared.install(ctx))
		return nil, err
	}))
}

// install applies what users install, and reports the status of a running controller and interceptor.
func (c *cluster) install(ctx context.Context) error {
	install := os.Getenv("ROLLOUTS_INSTALL_YAML")
	err := rolloutscontroller.Install(ctx, c.admin, install, nil,
		filepath.Join(os.Getenv("GATEWAY_API_CRDS"), "gateway.networking.k8s.io_httproutes.yaml"),
		manifests+"crd/http.keda.sh_httpscaledobjects.yaml", manifests+"argo-rollouts/rbac.yaml",
		manifests+"argo-rollouts/gatewayapi/rbac.yaml", manifests+"interceptor/namespace.yaml",
		manifests+"interceptor/deployment.yaml")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Clean(install))
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: Deployment\n") {
			// The files of the plugins are in /tmp of this machine, which is not the volume of the container.
			document = strings.ReplaceAll(document, "mountPath: /tmp\n", "mountPath: /var/tmp\n")
			if err := apiserver.Apply(ctx, c.admin, rolloutscontroller.Namespace, document); err != nil {
				return err
			}
		}
	}
	node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "one"}}
	if err := apiserver.Create(ctx, c.admin, "/api/v1/nodes", node); err != nil {
		return err
	}
	ready := map[string]any{"status": map[string]any{"replicas": 1, "readyReplicas": 1}}
	machine := map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"architecture": native}}}
	return errors.Join(
		apiserver.Patch(ctx, c.admin, deploymentPath+"/status", "test", ready),
		apiserver.Patch(ctx, c.admin,
			"/apis/apps/v1/namespaces/keda/deployments/keda-add-ons-http-interceptor/status", "test", ready),
		apiserver.Patch(ctx, c.admin, "/api/v1/nodes/one/status", "test", machine),
	)
}

// register writes the list of plugins: text is the YAML of trafficRouterPlugins.
func (c *cluster) register(t *testing.T, text string) {
	t.Helper()
	err := apiserver.Patch(t.Context(), c.admin,
		"/api/v1/namespaces/"+rolloutscontroller.Namespace+"/configmaps/argo-rollouts-config", "test",
		map[string]any{"data": map[string]any{"trafficRouterPlugins": text}})
	if err != nil {
		t.Fatal(err)
	}
}

// entry returns an entry of the list of plugins. sha256 may be empty.
func entry(name, location, sha256 string) string {
	return fmt.Sprintf("- {name: %q, location: %q, sha256: %q}\n", name, location, sha256)
}

// registered returns the list with both plugins.
func (c *cluster) registered() string { return c.entryOf(kedify) + c.entryOf(gateway) }

// entryOf returns the valid entry of a router.
func (c *cluster) entryOf(r router) string {
	return entry(r.plugin, "file://"+filepath.Join(c.folder, r.program), "")
}

// restart replaces the controller, and its Pod, by one that reads the list of plugins again. It runs as the user of
// token.
func (c *cluster) restart(t *testing.T, token string) {
	t.Helper()
	if c.controller != nil {
		if err := c.controller.Kill(); err != nil {
			t.Fatal(err)
		}
		c.deletePod(t)
	}
	c.starts++
	c.home = filepath.Join(c.folder, fmt.Sprint("home-", c.starts))
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name":   fmt.Sprint("argo-rollouts-", c.starts),
			"labels": map[string]any{"app.kubernetes.io/name": "argo-rollouts"},
		},
		"spec": map[string]any{"nodeName": "one", "containers": []any{map[string]any{"name": "c", "image": "c"}}},
	}
	if err := apiserver.Create(t.Context(), c.admin, c.pods(), pod); err != nil {
		t.Fatal(err)
	}
	var err error
	c.controller, err = rolloutscontroller.StartAs(c.ControlPlane, token, os.Getenv("ROLLOUTS_CONTROLLER_BIN"), c.home,
		"--leader-elect=false")
	if err != nil {
		t.Fatal(err)
	}
}

// pods is the API path of the Pods of the controller.
func (c *cluster) pods() string {
	return "/api/v1/namespaces/" + rolloutscontroller.Namespace + "/pods"
}

// deletePod deletes the controller's Pod at once, as a kubelet does after the process has ended.
func (c *cluster) deletePod(t *testing.T) {
	t.Helper()
	err := c.admin.Delete().AbsPath(c.pods()+"/"+fmt.Sprint("argo-rollouts-", c.starts)).
		Param("gracePeriodSeconds", "0").Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
}

// log returns the controller's log about a namespace as a container would have written it, without the quoting of its
// messages.
func (c *cluster) log(namespace string) string {
	if c.controller == nil {
		return "no controller runs"
	}
	lines, err := c.controller.LogLines("namespace="+namespace, 200)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`\"`, `"`, c.home, "/home/argo-rollouts").Replace(lines)
}

// simulate reports the status of Pods and Gateways until the test ends.
func simulate(t *testing.T, c *cluster) {
	t.Helper()
	simulator := rolloutscontroller.NewClusterSimulator(c.admin, map[string]string{"httproutes": "v1"})
	simulator.EndpointSlices = true
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		simulator.Run(t.Context())
	}()
	t.Cleanup(func() { <-stopped })
}
