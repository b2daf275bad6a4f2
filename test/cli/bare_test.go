package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// bareCluster is a cluster with Argo Rollouts and the CRDs of KEDA only.
type bareCluster struct {
	cluster
}

// newBareCluster starts a bare cluster: the shared one already has an installation. All Deployments become available
// immediately.
// The caller is not parallel, so the shared API server is idle.
func newBareCluster(t *testing.T) *bareCluster {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	running, err := apiserver.Start(t.Context(), binaries, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &bareCluster{cluster{ControlPlane: running, folder: folder}}
	if err := b.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		runDeploymentController(ctx, b.admin)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return b
}

// fill creates the objects that exist before the installation.
func (b *bareCluster) fill(ctx context.Context) (err error) {
	if b.admin, err = b.Client(apiserver.AdminToken); err != nil {
		return err
	}
	if err := b.WriteKubeconfig(b.kubeconfig(apiserver.AdminToken), apiserver.AdminToken); err != nil {
		return err
	}
	argo, keda, err := sources(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"argo-rollouts", "keda", "shop"} {
		if err := apiserver.CreateNamespace(ctx, b.admin, name); err != nil {
			return err
		}
	}
	err = apiserver.ApplyFiles(ctx, b.admin, "argo-rollouts",
		filepath.Join(argo, "manifests/install.yaml"),
		filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml"),
		filepath.Join(keda, "config/manager/manager.yaml"), filepath.Join(keda,
			"config/rbac/role.yaml"), filepath.Join(keda, "config/rbac/role_binding.yaml"))
	if err != nil {
		return err
	}
	node := map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "one"},
	}
	if err := apiserver.Create(ctx, b.admin, "/api/v1/nodes", node); err != nil {
		return err
	}
	return b.patch(ctx, "/api/v1/nodes/one/status", "status: {nodeInfo: {architecture: amd64, operatingSystem: linux}}")
}

// runDeploymentController sets the status of each Deployment to available until ctx ends.
func runDeploymentController(ctx context.Context, client rest.Interface) {
	const deployments = "/apis/apps/v1/deployments"
	for ctx.Err() == nil {
		stream, err := client.Get().AbsPath(deployments).Param("watch", "true").Stream(ctx)
		if err != nil {
			return
		}
		for decoder := json.NewDecoder(stream); ; {
			var event struct {
				Type   string
				Object struct {
					Metadata struct {
						Namespace, Name string
						Generation      int64
					}
					Spec   struct{ Replicas int32 }
					Status struct{ ObservedGeneration int64 }
				}
			}
			if decoder.Decode(&event) != nil {
				break
			}
			live := event.Object
			if event.Type == "DELETED" || live.Status.ObservedGeneration >= live.Metadata.Generation {
				continue
			}
			replicas := live.Spec.Replicas
			// The Deployment may have been deleted or changed in the meantime: another event follows.
			_ = apiserver.Patch(ctx, client, deployment(live.Metadata.Namespace, live.Metadata.Name)+"/status", "test",
				map[string]any{"status": map[string]any{
					"observedGeneration": live.Metadata.Generation, "replicas": replicas, "updatedReplicas": replicas,
					"readyReplicas":     replicas,
					"availableReplicas": replicas,
				}})
		}
		stream.Close()
	}
}

// run runs the plugin as the administrator.
func (b *bareCluster) run(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t, b.kubeconfig(apiserver.AdminToken), args...)
}

// cut starts a proxy for the API server that aborts all connections after the n-th write. isCut reports whether that
// has happened.
func (b *bareCluster) cut(t *testing.T, n int64) (address string, isCut *atomic.Bool) {
	t.Helper()
	config := b.Config(apiserver.AdminToken)
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:      func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	isCut = new(atomic.Bool)
	var writes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if isCut.Load() {
			panic(http.ErrAbortHandler)
		}
		// A SubjectAccessReview writes nothing.
		isWrite := request.Method != http.MethodGet && filepath.Base(request.URL.Path) != "subjectaccessreviews"
		if !isWrite || writes.Add(1) != n {
			forward.ServeHTTP(w, request)
			return
		}
		forward.ServeHTTP(httptest.NewRecorder(), request)
		isCut.Store(true)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	return server.URL, isCut
}

// get reads an object; nil if it does not exist.
func (b *bareCluster) get(t *testing.T, path string) map[string]any {
	t.Helper()
	body, err := b.admin.Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// snapshot returns all objects that install may change, without the fields that the API server sets.
func (b *bareCluster) snapshot(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, collection := range []string{
		"/api/v1/configmaps", "/api/v1/services", "/api/v1/serviceaccounts", "/api/v1/secrets",
		"/apis/apps/v1/deployments",
		"/apis/policy/v1/poddisruptionbudgets", "/apis/rbac.authorization.k8s.io/v1/roles",
		"/apis/rbac.authorization.k8s.io/v1/rolebindings",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/apis/coordination.k8s.io/v1/leases", "/apis/networking.k8s.io/v1/ingresses",
	} {
		items, _ := b.get(t, collection)["items"].([]any)
		for _, item := range items {
			object := item.(map[string]any)
			metadata := object["metadata"].(map[string]any)
			if metadata["namespace"] == "kube-system" || metadata["namespace"] == "kube-node-lease" {
				continue // Leases of the API server
			}
			for _, volatile := range []string{
				"uid", "resourceVersion", "generation", "creationTimestamp",
				"managedFields",
			} {
				delete(metadata, volatile)
			}
			delete(object, "status")
			if spec, ok := object["spec"].(map[string]any); ok {
				delete(spec, "clusterIP")
				delete(spec, "clusterIPs")
			}
			all[fmt.Sprint(collection, " ", metadata["namespace"], "/", metadata["name"])] = object
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d objects", len(all))
	}
	return all
}
