package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/istio"
	"github.com/kedify/argo-rollouts-plugin/test/kit/openshift"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// manifests is the folder of the project's manifests, and example that of the guide's.
	manifests, example = "../../config/", "../../examples/argo-rollouts-canary/"
	// scaler is the address in triggers.
	scaler = "keda-add-ons-http-external-scaler.keda:9090"
	// coolDown is the agent's --autowire-cool-down.
	coolDown = 2 * time.Second
	// definitionsVariable is the environment variable with the folder of the Gateway API's CRDs.
	definitionsVariable = "GATEWAY_API_CRDS"
)

// cluster is an API server with a running agent.
type cluster struct {
	*apiserver.ControlPlane

	admin  *rest.RESTClient
	audit  apiserver.AuditLog
	folder string // has the built agent
	ports  []int  // of the webhook and of health
	agent  *program.Process
	// waited is the agent's readiness message before KEDA was installed.
	waited string
}

// shared is the cluster of all tests; TestMain starts it.
var shared cluster

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, []string{"agent"},
		func(ctx context.Context, s apiserver.Shared) (func(int) error, error) {
			shared = cluster{ControlPlane: s.ControlPlane, admin: s.Admin, audit: s.Audit, folder: s.Folder}
			return shared.end, shared.install(ctx)
		}))
}

// end stops the agent, and prints its log if tests have failed.
func (c *cluster) end(code int) error {
	err := c.agent.Kill()
	if code == 0 {
		return err
	}
	for _, file := range []string{"agent.log", "other/agent.log"} {
		log, _ := os.ReadFile(filepath.Join(c.folder, file))
		fmt.Fprintf(os.Stderr, "what the agent wrote, %s:\n%s\n", file, log)
	}
	return err
}

// install installs everything like a user, with KEDA, Argo Rollouts, the Gateway API and the CRDs of Istio and OpenShift
// after the agent.
func (c *cluster) install(ctx context.Context) error {
	if os.Getenv(definitionsVariable) == "" {
		return fmt.Errorf("%s is not set: run `make test-parts`, or set it to the path of that part", definitionsVariable)
	}
	err := apiserver.ApplyFiles(ctx, c.admin, "", manifests+"interceptor/namespace.yaml",
		manifests+"crd/http.keda.sh_httpscaledobjects.yaml",
		manifests+"agent/rbac.yaml", manifests+"agent/admission.yaml", manifests+"agent/service.yaml",
		manifests+"agent/deployment.yaml")
	if err == nil {
		c.agent, c.ports, err = c.start(ctx, c.folder)
	}
	if err == nil {
		err = c.agent.Await(ctx, func(ctx context.Context) error {
			var code int
			code, c.waited, err = ready(ctx, c.ports)
			if err == nil && (code == http.StatusOK || !strings.Contains(c.waited, "install KEDA")) {
				err = fmt.Errorf("without KEDA the agent says %d %s", code, c.waited)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	keda, err := program.ModuleFolder(ctx, "testdata/keda", "mod", "download", "-json",
		"github.com/kedacore/keda/v2@v2.19.0")
	if err != nil {
		return err
	}
	if err := apiserver.ApplyFiles(ctx, c.admin, "",
		filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml")); err != nil {
		return err
	}
	if err := isReady(ctx, c.agent, c.ports); err != nil {
		return err
	}
	argo, err := program.ModuleFolder(ctx, ".", "list", "-m", "-json", "github.com/argoproj/argo-rollouts")
	if err != nil {
		return err
	}
	crds, err := istio.CRDs(ctx, "../..")
	if err != nil {
		return err
	}
	routes, err := openshift.CRD(ctx, "../..")
	if err != nil {
		return err
	}
	return errors.Join(apiserver.Apply(ctx, c.admin, "", append(crds, routes)...), apiserver.ApplyFiles(ctx, c.admin, "",
		append(gatewayAPI(), filepath.Join(argo, "manifests/crds/rollout-crd.yaml"),
			manifests+"crd/http.keda.sh_interceptorroutes.yaml")...))
}

// gatewayAPI returns the files with the CRDs of HTTPRoutes, ReferenceGrants and BackendTLSPolicies.
func gatewayAPI() []string {
	folder := os.Getenv(definitionsVariable)
	return []string{
		filepath.Join(folder, "gateway.networking.k8s.io_httproutes.yaml"),
		filepath.Join(folder, "gateway.networking.k8s.io_referencegrants.yaml"),
		filepath.Join(folder, "gateway.networking.k8s.io_backendtlspolicies.yaml"),
	}
}

// start starts the built agent as its ServiceAccount, with more flags. Its files are in folder. It returns the
// ports of its webhook, 0 if a flag disables it, and of health.
func (c *cluster) start(
	ctx context.Context, folder string, more ...string,
) (agent *program.Process, ports []int, err error) {
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig, apiserver.AgentToken); err != nil {
		return nil, nil, err
	}
	const free = "127.0.0.1:0"
	agent, err = program.Start(ctx, folder, filepath.Join(c.folder, "agent"), append([]string{
		"--kubeconfig=" + kubeconfig, "--pod-namespace=keda", "--scaler-address=" + scaler,
		"--webhook-address=" + free, "--health-address=" + free, "--metrics-address=" + free,
		"--webhook-names=localhost", "--shutdown-delay=0s", "--autowire-cool-down=" + coolDown.String(),
		"--proxy-removal-delay=3s", "--log-format=text",
	}, more...)...)
	if err != nil {
		return nil, nil, err
	}
	err = agent.Await(ctx, func(context.Context) error {
		ports = nil
		log, err := os.ReadFile(filepath.Join(folder, "agent.log"))
		for _, name := range []string{"webhook", "health"} {
			found := regexp.MustCompile("port=" + name + ` address=127\.0\.0\.1:(\d+)`).FindSubmatch(log)
			if name == "webhook" && slices.Contains(more, "--webhook-address=") {
				ports = append(ports, 0)
				continue
			}
			if found == nil {
				return errors.Join(err, fmt.Errorf("no port %s in the log", name))
			}
			number, err := strconv.Atoi(string(found[1]))
			if err != nil {
				return err
			}
			ports = append(ports, number)
		}
		return nil
	})
	return agent, ports, err
}

// startReady starts an agent in a folder, and waits until it is ready. It ends with the test.
func startReady(t *testing.T, folder string, flags ...string) *program.Process {
	t.Helper()
	agent, ports, err := shared.start(t.Context(), folder, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	if err := isReady(await.Context(t), agent, ports); err != nil {
		t.Fatal(err)
	}
	return agent
}

// isReady waits until an agent is ready.
func isReady(ctx context.Context, agent *program.Process, ports []int) error {
	return agent.Await(ctx, func(ctx context.Context) error {
		code, says, err := ready(ctx, ports)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, says)
		}
		return err
	})
}

// ready asks an agent whether it is ready.
func ready(ctx context.Context, ports []int) (code int, says string, err error) {
	address := fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := (&http.Client{Timeout: await.Patience()}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// namespace creates a namespace for a test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	if err := apiserver.Apply(t.Context(), shared.admin, "",
		`{apiVersion: v1, kind: Namespace, metadata: {name: `+name+`}}`); err != nil {
		t.Fatal(err)
	}
	return name
}

// namespaceOf creates a namespace for one case of a test.
func namespaceOf(t *testing.T, test, name string) string {
	t.Helper()
	return namespace(t, test+"-"+strings.NewReplacer(" ", "-", "'", "").Replace(name))
}

// apply applies manifests in a namespace.
func apply(t *testing.T, namespace string, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), shared.admin, namespace, manifests...); err != nil {
		t.Fatal(err)
	}
}

// applyFiles applies files in a namespace.
func applyFiles(t *testing.T, namespace string, files ...string) {
	t.Helper()
	if err := apiserver.ApplyFiles(t.Context(), shared.admin, namespace, files...); err != nil {
		t.Fatal(err)
	}
}

// Paths of objects in a namespace.
func httpScaledObject(namespace, name string) string {
	return "/apis/http.keda.sh/v1alpha1/namespaces/" + namespace + "/httpscaledobjects/" + name
}

func scaledObject(namespace, name string) string {
	return "/apis/keda.sh/v1alpha1/namespaces/" + namespace + "/scaledobjects/" + name
}

// get reads an object into target. It reports whether the object exists.
func get(t *testing.T, path string, target any) bool {
	t.Helper()
	body, err := shared.admin.Get().AbsPath(path).DoRaw(t.Context())
	if apierrors.IsNotFound(err) {
		return false
	}
	if err := errors.Join(err, json.Unmarshal(body, target)); err != nil {
		t.Fatal(err)
	}
	return true
}

// patch sends a merge patch as a user would.
func patch(t *testing.T, path, body string) {
	t.Helper()
	err := shared.admin.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", "user").Body([]byte(body)).
		Do(t.Context()).Error()
	if err != nil {
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

// awaitObject waits until an HTTPScaledObject fulfills a condition, and returns it.
func awaitObject(
	t *testing.T, namespace, name, what string, holds func(*httpv1alpha1.HTTPScaledObject) bool,
) *httpv1alpha1.HTTPScaledObject {
	t.Helper()
	var found *httpv1alpha1.HTTPScaledObject
	await.True(t, namespace+"/"+name+": "+what, func() bool {
		found = new(httpv1alpha1.HTTPScaledObject)
		return get(t, httpScaledObject(namespace, name), found) && holds(found)
	})
	return found
}

// awaitGone waits until an HTTPScaledObject is gone.
func awaitGone(t *testing.T, namespace, name string) {
	t.Helper()
	await.True(t, namespace+"/"+name+" is gone", func() bool {
		return !get(t, httpScaledObject(namespace, name), new(httpv1alpha1.HTTPScaledObject))
	})
}

// history returns the states of an object after a version of it, until it is deleted or in the state that isLast.
func history[T any](t *testing.T, object, version string, isLast func(T) bool) []T {
	t.Helper()
	slash := strings.LastIndexByte(object, '/')
	stream, err := shared.admin.Get().AbsPath(object[:slash]).Param("watch", "true").Param("resourceVersion", version).
		Param("fieldSelector", "metadata.name="+object[slash+1:]).Stream(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var states []T
	for decoder := json.NewDecoder(stream); ; {
		var event struct {
			Type   watch.EventType
			Object T
		}
		if err := decoder.Decode(&event); err != nil || event.Type == watch.Error {
			t.Fatalf("watch %s: %s %+v: %v; so far: %+v", object, event.Type, event.Object, err, states)
		}
		states = append(states, event.Object)
		if event.Type == watch.Deleted || isLast(event.Object) {
			return states
		}
	}
}

// there holds for any object.
func there(*httpv1alpha1.HTTPScaledObject) bool { return true }
