package manifests_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
)

// options selects everything.
func options() manifests.Options {
	return manifests.Options{
		Routers: []string{"kedify/http", "argoproj-labs/gatewayAPI"}, Components: manifests.Components(),
		ProxyNamespaces: []string{"shop", "web"},
		Registry:        "registry.example.com/$1", Tag: "1.2.3",
		Controller: types.NamespacedName{Namespace: "argo", Name: "rollouts"},
		Account:    types.NamespacedName{Namespace: "argo", Name: "controller"},
	}
}

// objects returns the objects of the options.
func objects(t *testing.T, options manifests.Options) []manifests.Object {
	t.Helper()
	all, err := manifests.NewSet(config.Files, options).Objects()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// text returns JSON.
func text(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestObjectsAreOrdered(t *testing.T) {
	t.Parallel()
	var names []string
	for _, object := range objects(t, options()) {
		names = append(names, object.String())
		if all := text(t, object.Content); !strings.Contains(all,
			`"app.kubernetes.io/managed-by":"kubectl-http-canary"`) ||
			strings.Contains(all, config.Registry) {
			t.Errorf("%s has no label, or an image of the embedded cluster: %s", object, all)
		}
	}
	want := strings.Fields(`
ClusterRole:argo-rollouts-kedify-http ClusterRoleBinding:argo-rollouts-kedify-http
ClusterRole:argo-rollouts-gateway-api ClusterRoleBinding:argo-rollouts-gateway-api
CustomResourceDefinition:httpscaledobjects.http.keda.sh CustomResourceDefinition:interceptorroutes.http.keda.sh
ServiceAccount:keda/kedify-http-interceptor ClusterRole:kedify-http-interceptor ClusterRoleBinding:kedify-http-interceptor
ClusterRole:kedify-http-interceptor-pages ClusterRoleBinding:kedify-http-interceptor-pages
ClusterRole:kedify-http-interceptor-settings ClusterRoleBinding:kedify-http-interceptor-settings
ClusterRole:kedify-http-interceptor-tokens ClusterRoleBinding:kedify-http-interceptor-tokens
ClusterRole:kedify-http-interceptor-dashboard ClusterRoleBinding:kedify-http-interceptor-dashboard
ClusterRole:kedify-http-interceptor-reviews ClusterRoleBinding:kedify-http-interceptor-reviews
Role:keda/kedify-http-interceptor RoleBinding:keda/kedify-http-interceptor
ClusterRole:kedify-http-interceptor-tls ClusterRole:kedify-http-interceptor-pods
Service:keda/keda-add-ons-http-interceptor-kedify-proxy-metric-sink Service:keda/keda-add-ons-http-interceptor-proxy
Service:keda/keda-add-ons-http-interceptor-admin Service:keda/keda-add-ons-http-interceptor-metrics Deployment:keda/keda-add-ons-http-interceptor
PodDisruptionBudget:keda/keda-add-ons-http-interceptor
ConfigMap:shop/kedify-proxy-bootstrap Service:shop/kedify-proxy Service:shop/kedify-proxy-admin PodDisruptionBudget:shop/kedify-proxy Deployment:shop/kedify-proxy
ConfigMap:web/kedify-proxy-bootstrap Service:web/kedify-proxy Service:web/kedify-proxy-admin PodDisruptionBudget:web/kedify-proxy Deployment:web/kedify-proxy
ServiceAccount:keda/kedify-http-scaler`)
	for i := range want {
		want[i] = strings.Replace(want[i], ":", " ", 1)
	}
	if diff := cmp.Diff(want, names[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := names[len(names)-1]; last != "MutatingWebhookConfiguration kedify-http-agent" {
		t.Errorf("the last object is %s", last)
	}
}

func TestControllerRoleBinding(t *testing.T) {
	t.Parallel()
	bindings := 0
	for _, object := range objects(t, manifests.Options{Routers: options().Routers, Account: options().Account}) {
		if object.Kind == "ClusterRoleBinding" {
			bindings++
			if got := text(t,
				object.Content["subjects"]); got != `[{"kind":"ServiceAccount","name":"controller","namespace":"argo"}]` {
				t.Errorf("%s is for %s", object, got)
			}
		}
	}
	if bindings != 2 {
		t.Errorf("there are %d", bindings)
	}
}

func TestReleaseImages(t *testing.T) {
	t.Parallel()
	all := text(t, objects(t, options()))
	for _, image := range []string{config.InterceptorImage, config.ScalerImage, config.AgentImage} {
		if want := `"registry.example.com/$1/` + image + `:1.2.3"`; !strings.Contains(all, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestLabels: objects have the recommended labels, the templates of Pods those that identify the product, and selectors
// none of them. The Pods of proxies have none, because a changed template would restart them.
func TestLabels(t *testing.T) {
	t.Parallel()
	const prefix = "app.kubernetes.io/"
	for tag, version := range map[string]any{"1.2.3": "1.2.3", strings.Repeat("1", 64): nil, "-dev": nil} {
		selected := options()
		selected.Tag = tag
		for _, object := range objects(t, selected) {
			metadata, _ := object.Content["metadata"].(map[string]any)
			labels, _ := metadata["labels"].(map[string]any)
			for label, want := range map[string]any{
				"part-of": "kedify-http", "instance": "kedify-http", "managed-by": "kubectl-http-canary",
				"version": version,
			} {
				if got := labels[prefix+label]; got != want {
					t.Errorf("%s: tag %s: label %s is %v, want %v", object, tag, label, got, want)
				}
			}
			spec, _ := object.Content["spec"].(map[string]any)
			if selector := text(t, spec["selector"]); strings.Contains(selector, prefix+"part-of") {
				t.Errorf("%s: the selector is %s", object, selector)
			}
			if object.Kind != "Deployment" {
				continue
			}
			template := text(t, spec["template"])
			got, want := strings.Contains(template, `"app.kubernetes.io/part-of":"kedify-http"`), object.Name != "kedify-proxy"
			if got != want {
				t.Errorf("%s: the Pods have label part-of: %v, want %v: %s", object, got, want, template)
			}
		}
	}
}

// TestControllerPatch: equal lists of plugins give equal patches, and different lists different patches, which replaces
// the Pods.
func TestControllerPatch(t *testing.T) {
	t.Parallel()
	set := manifests.NewSet(config.Files, options())
	patch := func(plugins string, withFiles bool) string {
		object, err := set.ControllerPatch(plugins, withFiles)
		if err != nil {
			t.Fatal(err)
		}
		return text(t, object.Content)
	}
	const head, tail = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"rollouts","namespace":"argo"}`, `}`
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // printf abc | sha256sum
	if got, want := patch("abc",
		false), head+`,"spec":{"template":{"metadata":{"annotations":{"http.kedify.io/plugins-sha256":"`+sum+`"}}}}`+tail; got != want {
		t.Errorf("it is\n%s, want\n%s", got, want)
	}
	if patch("abc", false) == patch("abd", false) {
		t.Error("different lists of plugins give the same patch")
	}
	with := patch("abc", true)
	for _, want := range []string{
		`"name":"kedify-plugin"`, `"name":"gatewayapi-plugin"`,
		`"registry.example.com/$1/argo-rollouts-plugin:1.2.3"`,
	} {
		if !strings.Contains(with, want) {
			t.Errorf("%s is not in %s", want, with)
		}
	}
	if got := text(t, manifests.ControllerRelease(options().Controller).Content); got != head+tail {
		t.Errorf("release patch %s", got)
	}
}

func TestPlanRejectsForeignObjects(t *testing.T) {
	t.Parallel()
	const label = "app.kubernetes.io/managed-by"
	role := manifests.Object{Reference: manifests.Reference{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role",
		Namespace: "keda", Name: "one",
	}}
	crd := manifests.Object{Reference: manifests.Reference{
		APIVersion: "apiextensions.k8s.io/v1",
		Kind:       "CustomResourceDefinition", Name: "one",
	}}
	routes := crd
	routes.Name = "interceptorroutes.http.keda.sh"
	for _, test := range []struct {
		name    string
		object  manifests.Object
		live    *manifests.Live
		want    manifests.Action
		message string
	}{
		{"a missing object", role, nil, manifests.Create, ""},
		{
			"with the label of this command", role,
			&manifests.Live{Labels: map[string]string{label: "kubectl-http-canary"}}, manifests.Update, "",
		},
		{
			"with the label of Helm", role, &manifests.Live{Labels: map[string]string{label: "Helm"}}, "",
			"Role keda/one already exists and is managed by Helm: delete it, or transfer it to this command: " +
				"kubectl label --overwrite --namespace=keda role/one app.kubernetes.io/managed-by=kubectl-http-canary",
		},
		{
			"without the label", role, &manifests.Live{}, "",
			"Role keda/one already exists and was not created by this command",
		},
		{
			"a CRD with the required version", crd, &manifests.Live{Served: []string{"v1beta1", "v1alpha1"}},
			manifests.Keep, "",
		},
		{
			"a CRD of InterceptorRoutes", routes, &manifests.Live{Served: []string{"v1beta1"}}, manifests.Keep, "",
		},
		{
			"a CRD without the required version", crd, &manifests.Live{Served: []string{"v1beta1"}}, "",
			"CustomResourceDefinition one already exists",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.object.Plan(test.live)
			if got != test.want {
				t.Errorf("action %s, want %s", got, test.want)
			}
			if _, isForeign := errors.AsType[*manifests.ForeignError](err); isForeign != (test.message != "") {
				t.Fatalf("the error is %v", err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), test.message) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestPaths checks the plurals of all kinds. test/cli checks the paths on an API server.
func TestPaths(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, object := range objects(t, options()) {
		path := object.Path()
		paths = append(paths, strings.Join(path[:len(path)-1], "/"))
	}
	slices.Sort(paths)
	want := []string{
		"api/v1/namespaces/keda/serviceaccounts", "api/v1/namespaces/keda/services",
		"api/v1/namespaces/shop/configmaps", "api/v1/namespaces/shop/services",
		"api/v1/namespaces/web/configmaps", "api/v1/namespaces/web/services",
		"apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"apis/apps/v1/namespaces/keda/deployments", "apis/apps/v1/namespaces/shop/deployments",
		"apis/apps/v1/namespaces/web/deployments",
		"apis/policy/v1/namespaces/keda/poddisruptionbudgets", "apis/policy/v1/namespaces/shop/poddisruptionbudgets",
		"apis/policy/v1/namespaces/web/poddisruptionbudgets", "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"apis/rbac.authorization.k8s.io/v1/clusterroles",
		"apis/rbac.authorization.k8s.io/v1/namespaces/keda/rolebindings",
		"apis/rbac.authorization.k8s.io/v1/namespaces/keda/roles",
	}
	if diff := cmp.Diff(want, slices.Compact(paths)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	policy := manifests.Reference{
		APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "one",
		Name: "two",
	}
	if got := strings.Join(policy.Path(), "/"); got != "apis/networking.k8s.io/v1/namespaces/one/networkpolicies/two" {
		t.Errorf("the path is %s", got)
	}
}
