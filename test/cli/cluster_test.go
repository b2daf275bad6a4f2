package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// manifests is the folder of this project's manifests.
const manifests = "../../config/"

// cluster is an API server with a healthy installation.
type cluster struct {
	*apiserver.ControlPlane

	admin  *rest.RESTClient
	folder string // contains the built plugin and the kubeconfigs
}

// shared is the cluster of all tests; TestMain starts it.
var shared cluster

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, []string{"kubectl-http_canary"},
		func(ctx context.Context, s apiserver.Shared) (func(int) error, error) {
			shared = cluster{ControlPlane: s.ControlPlane, admin: s.Admin, folder: s.Folder}
			return nil, shared.install(ctx)
		}))
}

// sources returns the folders of Argo Rollouts and KEDA with their manifests.
func sources(ctx context.Context) (argo, keda string, err error) {
	argo, err = program.ModuleFolder(ctx, ".", "list", "-m", "-json", "github.com/argoproj/argo-rollouts")
	if err != nil {
		return "", "", err
	}
	keda, err = program.ModuleFolder(ctx, "../agent/testdata/keda", "mod", "download", "-json",
		"github.com/kedacore/keda/v2@v2.19.0")
	return argo, keda, err
}

// install applies the manifests that users apply, and writes the status that controllers report.
func (c *cluster) install(ctx context.Context) error {
	for _, token := range []string{apiserver.AdminToken, apiserver.UnprivilegedToken} {
		if err := c.WriteKubeconfig(c.kubeconfig(token), token); err != nil {
			return err
		}
	}
	argo, keda, err := sources(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"argo-rollouts", "shop", "web"} {
		if err := apiserver.CreateNamespace(ctx, c.admin, name); err != nil {
			return err
		}
	}
	gateway := os.Getenv("GATEWAY_API_CRDS")
	err = apiserver.ApplyFiles(ctx, c.admin, "argo-rollouts",
		filepath.Join(argo, "manifests/install.yaml"),
		filepath.Join(gateway, "gateway.networking.k8s.io_httproutes.yaml"),
		filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml"),
		manifests+"interceptor/namespace.yaml", manifests+"crd/http.keda.sh_httpscaledobjects.yaml",
		manifests+"crd/http.keda.sh_interceptorroutes.yaml",
		manifests+"interceptor/deployment.yaml", manifests+"scaler/deployment.yaml", manifests+"agent/rbac.yaml",
		manifests+"agent/deployment.yaml", manifests+"agent/service.yaml", manifests+"agent/webhook.yaml",
		manifests+"argo-rollouts/rbac.yaml",
		manifests+"argo-rollouts/gatewayapi/rbac.yaml",
		filepath.Join(keda, "config/rbac/role.yaml"), filepath.Join(keda, "config/rbac/role_binding.yaml"),
		filepath.Join(keda, "config/manager/manager.yaml"), "testdata/plugins.yaml")
	if err != nil {
		return err
	}
	for _, file := range []string{
		"argo-rollouts/deployment-patch.yaml",
		"argo-rollouts/gatewayapi/deployment-patch.yaml",
	} {
		if err := c.patchFile(ctx, deployment("argo-rollouts", "argo-rollouts"), manifests+file); err != nil {
			return err
		}
	}
	node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "one"}}
	if err := apiserver.Create(ctx, c.admin, "/api/v1/nodes", node); err != nil {
		return err
	}
	if err := c.trust(ctx); err != nil {
		return err
	}
	for path := range ready() {
		if err := c.patch(ctx, path, ready()[path]); err != nil {
			return err
		}
	}
	if err := apiserver.ApplyFiles(ctx, c.admin, "", "testdata/applications.yaml"); err != nil {
		return err
	}
	for path, status := range reports() {
		if err := c.patch(ctx, path, status); err != nil {
			return err
		}
	}
	return nil
}

// webhook is the path of the agent's webhook.
const webhook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kedify-http-agent"

// trust sets caBundle of the agent's webhook, as the agent does. No agent runs here, so its failures are ignored.
func (c *cluster) trust(ctx context.Context) error {
	const bundle = `[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Y2E="},
{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`
	return c.admin.Patch(types.JSONPatchType).AbsPath(webhook).Body([]byte(bundle)).Do(ctx).Error()
}

// kubeconfig returns the kubeconfig file for a token.
func (c *cluster) kubeconfig(token string) string {
	return filepath.Join(c.folder, token+".kubeconfig")
}

// patch sends a merge patch in YAML.
func (c *cluster) patch(ctx context.Context, path, body string) error {
	text, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		return err
	}
	return c.admin.Patch(types.MergePatchType).AbsPath(path).Body(text).Do(ctx).Error()
}

// patchFile sends a file as kubectl patch --patch-file does.
func (c *cluster) patchFile(ctx context.Context, path, file string) error {
	text, err := os.ReadFile(filepath.Clean(file))
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return err
	}
	return c.admin.Patch(types.StrategicMergePatchType).AbsPath(path).Body(text).Do(ctx).Error()
}

// Paths of objects.
func deployment(namespace, name string) string {
	return "/apis/apps/v1/namespaces/" + namespace + "/deployments/" + name
}

func rolloutPath(namespace, name string) string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + namespace + "/rollouts/" + name
}

func objectPath(namespace, name string) string {
	return "/apis/http.keda.sh/v1alpha1/namespaces/" + namespace + "/httpscaledobjects/" + name
}

func routePath(namespace, name string) string {
	return "/apis/gateway.networking.k8s.io/v1/namespaces/" + namespace + "/httproutes/" + name
}

// result is the result of a run of the plugin.
type result struct {
	code     int
	out, err string
}

// run runs the plugin as the user of a token.
func run(t *testing.T, token string, args ...string) result {
	t.Helper()
	return runWith(t, shared.kubeconfig(token), args...)
}

// runWith runs the plugin with a kubeconfig.
func runWith(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(shared.folder, "kubectl-http_canary"), args...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "LC_ALL=C")
	err := command.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return result{command.ProcessState.ExitCode(), out.String(), problems.String()}
}

// apply applies manifests.
func apply(t *testing.T, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), shared.admin, "", manifests...); err != nil {
		t.Fatal(err)
	}
}

// patch sends a merge patch in YAML.
func patch(t *testing.T, path, body string) {
	t.Helper()
	if err := shared.patch(t.Context(), path, body); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object.
func remove(t *testing.T, path string) {
	t.Helper()
	if err := shared.admin.Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// read reads an object.
func read(t *testing.T, path string) map[string]any {
	t.Helper()
	body, err := shared.admin.Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// readFile reads a file.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
