package helm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/helmcli"
)

const (
	// root is the path of the repository's root, chart the folder of the chart.
	root  = "../.."
	chart = root + "/charts/kedify-http"
	// release is the name of the releases, namespace their namespace.
	release, namespace = "kedify-http", "routing"
	// interceptor is the Deployment of the interceptor.
	interceptor = "Deployment " + namespace + "/keda-add-ons-http-interceptor"
	// webhook is the configuration of the agent's webhook.
	webhook = "MutatingWebhookConfiguration kedify-http-agent"
)

// The API server of all tests, which run one after the other; TestMain starts it.
var (
	admin      *rest.RESTClient
	kubeconfig string
)

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunTests(m, nil, func(ctx context.Context, shared apiserver.Shared) (func(int) error, error) {
		admin, kubeconfig = shared.Admin, filepath.Join(shared.Folder, "kubeconfig")
		for _, name := range []string{"argo-rollouts", "shop", "web", namespace} {
			if err := apiserver.CreateNamespace(ctx, admin, name); err != nil {
				return nil, err
			}
		}
		return nil, shared.WriteKubeconfig(kubeconfig, apiserver.AdminToken)
	}))
}

// helm runs helm for the release.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helmcli.Run(t.Context(), t.TempDir(), kubeconfig, append(args, "--namespace", namespace)...)
}

// must runs helm, and fails the test if helm fails.
func must(t *testing.T, args ...string) string {
	t.Helper()
	output, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// install installs the chart, and uninstalls it at the end of the test.
func install(t *testing.T, args ...string) {
	t.Helper()
	ctx, home := context.WithoutCancel(t.Context()), t.TempDir()
	t.Cleanup(func() {
		arguments := []string{"uninstall", release, "--namespace", namespace, "--ignore-not-found"}
		if _, err := helmcli.Run(ctx, home, kubeconfig, arguments...); err != nil {
			t.Error(err)
		}
	})
	must(t, append([]string{"install", release, chart}, args...)...)
}

// installed returns the references of the release's objects.
func installed(t *testing.T) []manifests.Reference {
	t.Helper()
	objects, err := manifests.Decode("helm get manifest", []byte(must(t, "get", "manifest", release)), "")
	if err != nil {
		t.Fatal(err)
	}
	var references []manifests.Reference
	for _, object := range objects {
		references = append(references, object.Reference)
	}
	if len(references) == 0 {
		t.Fatal("the release has no objects")
	}
	return references
}

// path returns the REST path of an object of the chart.
func path(reference manifests.Reference) string { return "/" + strings.Join(reference.Path(), "/") }

// get reads an object, and reports whether it exists.
func get(t *testing.T, reference manifests.Reference) (object *unstructured.Unstructured, exists bool) {
	t.Helper()
	body, err := admin.Get().AbsPath(path(reference)).DoRaw(t.Context())
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	object = new(unstructured.Unstructured)
	if err == nil {
		err = object.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("%s: %v", reference, err)
	}
	return object, true
}

// named returns the object of the release with this name, such as "Deployment ns/name".
func named(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	references := installed(t)
	i := slices.IndexFunc(references, func(r manifests.Reference) bool { return r.String() == name })
	if i < 0 {
		t.Fatalf("the release has no %s: %v", name, references)
	}
	object, exists := get(t, references[i])
	if !exists {
		t.Fatalf("%s does not exist", name)
	}
	return object
}

// replicas returns the replicas of the interceptor.
func replicas(t *testing.T) int64 {
	t.Helper()
	number, _, err := unstructured.NestedInt64(named(t, interceptor).Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// crdReference is the reference of the CRD.
func crdReference() manifests.Reference {
	return manifests.Reference{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "httpscaledobjects.http.keda.sh",
	}
}

// routeCRDReference is the reference of the CRD of InterceptorRoutes.
func routeCRDReference() manifests.Reference {
	reference := crdReference()
	reference.Name = "interceptorroutes.http.keda.sh"
	return reference
}

// pluginsReference is the reference of the ConfigMap with the list of plugins.
func pluginsReference() manifests.Reference {
	return manifests.Reference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "argo-rollouts", Name: "argo-rollouts-config",
	}
}

// TestInstall: the API server accepts all objects of each set of values in test/chart, and helm uninstall removes all
// except the CRD and the list of plugins. The next release with the same name continues with these.
func TestInstall(t *testing.T) {
	files, err := filepath.Glob(root + "/test/chart/testdata/*/values.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("values: %v, %v, want at least 8", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			// The API server has no CRDs of the Prometheus operator; tools/promrules decodes its objects. The namespaces of
			// Argo Rollouts exist.
			install(t, "--values", file, "--set", "prometheusRule.enabled=false", "--set", "podMonitors.enabled=false", "--set",
				"argoRollouts.namespace=argo-rollouts")
			references := installed(t)
			for _, reference := range references {
				if _, exists := get(t, reference); !exists {
					t.Errorf("%s does not exist", reference)
				}
			}
			must(t, "uninstall", release)
			for _, reference := range references {
				isKept := reference == crdReference() || reference == routeCRDReference() || reference == pluginsReference()
				if _, exists := get(t, reference); exists != isKept {
					t.Errorf("%s: exists after uninstall: %t", reference, exists)
				}
			}
		})
	}
	if _, exists := get(t, crdReference()); !exists {
		t.Error("the CRD does not exist any more")
	}
}

// TestUpgrade: an upgrade changes what its values change, keeps what the agent has written, and can be rolled back.
func TestUpgrade(t *testing.T) {
	install(t)
	// As the agent does.
	const bundle = `[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Y2E="}]`
	configuration := manifests.Reference{
		APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration", Name: "kedify-http-agent",
	}
	if err := admin.Patch(types.JSONPatchType).AbsPath(path(configuration)).Param("fieldManager", "agent").
		Body([]byte(bundle)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	bundleOf := func() string {
		webhooks, _, err := unstructured.NestedSlice(named(t, webhook).Object, "webhooks")
		if err != nil || len(webhooks) != 1 {
			t.Fatalf("%s: %v, %v", webhook, webhooks, err)
		}
		first, _ := webhooks[0].(map[string]any)
		found, _, err := unstructured.NestedString(first, "clientConfig", "caBundle")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, step := range []struct {
		args []string
		want int64
	}{
		{[]string{"upgrade", release, chart, "--reset-then-reuse-values", "--set", "interceptor.replicas=3"}, 3},
		{[]string{"upgrade", release, chart, "--reset-then-reuse-values", "--set", "agent.webhook.failurePolicy=Ignore"}, 3},
		{[]string{"rollback", release, "1"}, 2},
	} {
		must(t, step.args...)
		if got := replicas(t); got != step.want {
			t.Errorf("helm %v: %d interceptors, want %d", step.args, got, step.want)
		}
		if got := bundleOf(); got != "Y2E=" {
			t.Errorf("helm %v: caBundle of the webhook: %q, want that of the agent", step.args, got)
		}
	}
}

// TestCRDIsKept: a release that no longer installs the CRD keeps it, and so do its objects.
func TestCRDIsKept(t *testing.T) {
	install(t)
	const path = "/apis/http.keda.sh/v1alpha1/namespaces/shop/httpscaledobjects"
	if err := apiserver.Create(t.Context(), admin, path, map[string]any{
		"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject", "metadata": map[string]any{"name": "app"},
		"spec": map[string]any{"hosts": []string{"app.example.com"}, "scaleTargetRef": map[string]any{
			"name": "app", "kind": "Deployment", "apiVersion": "apps/v1", "service": "app", "port": 8080,
		}},
	}); err != nil {
		t.Fatal(err)
	}
	before, _ := get(t, crdReference())
	must(t, "upgrade", release, chart, "--reset-then-reuse-values", "--set", "crd.install=false")
	must(t, "uninstall", release)
	after, exists := get(t, crdReference())
	if !exists || after.GetUID() != before.GetUID() || after.GetDeletionTimestamp() != nil {
		t.Fatalf("the CRD was deleted: %v", after)
	}
	if err := admin.Delete().AbsPath(path + "/app").Do(t.Context()).Error(); err != nil {
		t.Errorf("HTTPScaledObject shop/app: %v", err)
	}
}

// applyConfig applies files of config in the release's namespace. The API server has another field manager for their
// fields than for those of helm.
func applyConfig(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, "config", filepath.Clean(file)))
		if err != nil {
			t.Fatal(err)
		}
		manifest := strings.ReplaceAll(string(text), "namespace: keda", "namespace: "+namespace)
		if err := apiserver.Apply(t.Context(), admin, namespace, manifest); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakeOwnership: helm rejects what the manifests of config have created, and takes it over with
// --take-ownership. Fields with equal values then have two owners, so changes of them need --force-conflicts.
func TestTakeOwnership(t *testing.T) {
	applyConfig(t, "interceptor/rbac.yaml", "interceptor/services.yaml", "interceptor/deployment.yaml",
		"scaler/deployment.yaml")
	_, err := helm(t, "install", release, chart)
	if err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Fatalf("helm took over objects without --take-ownership: %v", err)
	}
	install(t, "--take-ownership", "--force-conflicts")
	if manager := named(t, interceptor).GetLabels()[manifests.LabelManagedBy]; manager != "Helm" {
		t.Errorf("the interceptor is managed by %q, want Helm", manager)
	}
	upgrade := []string{"upgrade", release, chart, "--reset-then-reuse-values", "--set"}
	if _, err := helm(t, append(upgrade, "interceptor.replicas=3")...); err == nil ||
		!strings.Contains(err.Error(), "conflict") {
		t.Fatalf("helm changed a field of another owner without --force-conflicts: %v", err)
	}
	for _, step := range []struct {
		args []string
		want int64
	}{
		{append(slices.Clone(upgrade), "interceptor.replicas=3"), 3},
		// The other manager still owns minAvailable of the scaler's PodDisruptionBudget.
		{append(slices.Clone(upgrade), "interceptor.replicas=1,scaler.replicas=1"), 1},
		{[]string{"rollback", release, "1"}, 2},
	} {
		must(t, append(step.args, "--force-conflicts")...)
		if got := replicas(t); got != step.want {
			t.Errorf("helm %v: %d interceptors, want %d", step.args, got, step.want)
		}
	}
}

// TestNextToTheHTTPAddOn: helm rejects the namespace of the KEDA HTTP add-on, by the name of the Deployment that the
// add-on has there, and installs into another one.
func TestNextToTheHTTPAddOn(t *testing.T) {
	const deployments, operator = "/apis/apps/v1/namespaces/%s/deployments", "keda-add-ons-http-operator"
	labels := map[string]any{"app": "operator"}
	install := func(namespace string) {
		t.Helper()
		collection := strings.Replace(deployments, "%s", namespace, 1)
		if err := apiserver.Create(t.Context(), admin, collection, map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": operator},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "operator", "image": "operator"}}},
			}},
		}); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithoutCancel(t.Context())
		t.Cleanup(func() {
			if err := admin.Delete().AbsPath(collection + "/" + operator).Do(ctx).Error(); err != nil {
				t.Error(err)
			}
		})
	}
	install("web")
	must(t, "install", release, chart)
	must(t, "uninstall", release)
	install(namespace)
	for _, args := range [][]string{nil, {"--take-ownership"}, {"--dry-run=server"}} {
		_, err := helm(t, append([]string{"install", release, chart}, args...)...)
		if want := "Deployment " + namespace + "/" + operator + " belongs to the KEDA HTTP add-on"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("helm install %v: %v, want %q", args, err, want)
		}
	}
}
