package agent_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// editedDefinition returns our definition as JSON after a change of the properties of its schema.
func editedDefinition(t *testing.T, edit func(properties map[string]any)) string {
	t.Helper()
	var definition map[string]any
	text, err := os.ReadFile(manifests + "crd/http.keda.sh_httpscaledobjects.yaml")
	if err := errors.Join(err, yaml.Unmarshal(text, &definition)); err != nil {
		t.Fatal(err)
	}
	version := definition["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	edit(properties)
	edited, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	return string(edited)
}

// otherConditions makes our definition have conditions as those of the KEDA HTTP add-on before v0.12 have them.
func otherConditions(t *testing.T) string {
	t.Helper()
	return editedDefinition(t, func(properties map[string]any) {
		status := properties["status"].(map[string]any)["properties"].(map[string]any)
		is := map[string]any{"type": "string"}
		status["conditions"] = map[string]any{"type": "array", "items": map[string]any{
			"type": "object", "required": []any{"type", "status"}, "properties": map[string]any{
				"type": map[string]any{"type": "string", "enum": []any{"Ready"}}, "status": is, "reason": is, "message": is,
				"timestamp": is,
			},
		}}
	})
}

// emptyCluster is clusterOfItsOwn with everything that the agent needs, and without an agent.
func emptyCluster(t *testing.T) (folder string) {
	t.Helper()
	folder = clusterOfItsOwn(t)
	argo, err := program.ModuleFolder(t.Context(), ".", "list", "-m", "-json", "github.com/argoproj/argo-rollouts")
	if err != nil {
		t.Fatal(err)
	}
	applyFiles(t, "", append(gatewayAPI(), manifests+"crd/http.keda.sh_httpscaledobjects.yaml",
		manifests+"agent/service.yaml", manifests+"agent/webhook.yaml",
		filepath.Join(argo, "manifests/crds/rollout-crd.yaml"))...)
	return folder
}

// clusterOfItsOwn replaces the shared cluster by one of the test until the test ends. It has KEDA's CRD and, of
// the agent's manifests, only the role. It returns a folder for the test's files. The shared API server is idle
// meanwhile, so tests that call this function are not parallel.
func clusterOfItsOwn(t *testing.T) (folder string) {
	t.Helper()
	folder = clusterWithoutRoles(t)
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	return folder
}

// clusterWithoutRoles is clusterOfItsOwn without the roles of the agent.
func clusterWithoutRoles(t *testing.T) (folder string) {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	folder = t.TempDir()
	state := filepath.Join(folder, "state")
	audit, auditErr := apiserver.NewAuditLog(folder)
	if err := errors.Join(err, auditErr, os.Mkdir(state, 0o700)); err != nil {
		t.Fatal(err)
	}
	running, err := apiserver.Start(t.Context(), binaries, state, audit.Flags()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop() })
	before := shared
	t.Cleanup(func() { shared = before })
	shared = cluster{ControlPlane: running, audit: audit, folder: before.folder}
	if shared.admin, err = running.Client(apiserver.AdminToken); err != nil {
		t.Fatal(err)
	}
	keda, err := program.ModuleFolder(t.Context(), "testdata/keda", "mod", "download", "-json",
		"github.com/kedacore/keda/v2@v2.19.0")
	if err != nil {
		t.Fatal(err)
	}
	applyFiles(t, "", manifests+"interceptor/namespace.yaml",
		filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml"))
	return folder
}

// TestSingleNamespace binds the role in one namespace, as config/agent/rbac.yaml describes, and starts the agent
// for that one.
//
//nolint:paralleltest // it replaces the shared cluster
func TestSingleNamespace(t *testing.T) {
	definition, err := os.ReadFile(manifests + "crd/http.keda.sh_httpscaledobjects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder := clusterOfItsOwn(t)
	apply(t, "", string(definition))
	team, other := namespace(t, "team"), namespace(t, "other")
	remove(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kedify-http-agent")
	apply(t, team, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: kedify-http-agent},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kedify-http-agent},
		subjects: [{kind: ServiceAccount, name: kedify-http-agent, namespace: keda}]}`)
	apply(t, other, shop(simple))
	apply(t, team, originalIngress, shop(simple))
	agent, _, err := shared.start(t.Context(), folder, "--namespaces="+team)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	patch(t, "/api/v1/namespaces/"+team, `{"metadata": {"annotations": {"http.kedify.io/proxy-replicas": "2"}}}`)
	awaitParts(t, team, len(proxyParts))
	awaitProxy(t, team, "as the Namespace says", func(found *appsv1.Deployment) bool { return *found.Spec.Replicas == 2 })
	slice(t, team)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	if found := parts(t, other); len(found) > 0 {
		t.Errorf("in another namespace there is %v", found)
	}
}

// TestCRDWithoutConditions runs the agent with the CRD of another project and without the Gateway API: every
// object is created, wired and deleted regardless.
//
//nolint:paralleltest // it replaces the shared cluster
func TestCRDWithoutConditions(t *testing.T) {
	folder := clusterOfItsOwn(t)
	apply(t, "", otherConditions(t))
	agent, _, err := shared.start(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() }) // the last one

	team := namespace(t, "team")
	two := `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: shop}, spec: {scaleTargetRef: {name: shop}, triggers: [
		{type: kedify-http, metadata: {hosts: shop.test, port: "80", service: shop}},
		{type: kedify-http, name: api, metadata: {hosts: api.test, port: "80", service: shop, trafficAutowire: "false"}}]}}`
	apply(t, team, two)
	awaitObject(t, team, "shop-api", "made", there)
	apply(t, team, originalIngress)
	proxies(t, team, true)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	// Uninstall: an agent that wires nothing restores what the one before has wired, which was ended in the middle.
	if err := agent.Kill(); err != nil {
		t.Fatal(err)
	}
	off := filepath.Join(folder, "off")
	if err := os.Mkdir(off, 0o700); err != nil {
		t.Fatal(err)
	}
	without, _, err := shared.start(t.Context(), off, "--autowire=false")
	if err != nil {
		t.Fatal(err)
	}
	awaitBackends(t, team, "shop:80 cart:80")
	awaitNoAnnotation(t, team)
	without.Stop(t)
	on := filepath.Join(folder, "on")
	if err := os.Mkdir(on, 0o700); err != nil {
		t.Fatal(err)
	}
	if agent, _, err = shared.start(t.Context(), on); err != nil {
		t.Fatal(err)
	}
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	apply(t, team, shop(simple))
	awaitGone(t, team, "shop-api")
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	awaitBackends(t, team, "shop:80 cart:80")
	if found := awaitObject(t, team, "shop", "there", there); meta.FindStatusCondition(found.Status.Conditions,
		"Autowired") != nil {
		t.Errorf("conditions %+v", found.Status.Conditions)
	}
}

// withoutPatterns is our definition without the fields for patterns in headers, as the KEDA HTTP add-on has it.
func withoutPatterns(t *testing.T) string {
	t.Helper()
	return editedDefinition(t, func(properties map[string]any) {
		spec := properties["spec"].(map[string]any)["properties"].(map[string]any)
		header := spec["headers"].(map[string]any)["items"].(map[string]any)
		delete(header, "x-kubernetes-validations")
		for _, field := range []string{"valueWildcard", "valueRegex"} {
			delete(header["properties"].(map[string]any), field)
		}
	})
}

// TestCRDWithoutPatterns runs the agent with a CRD that lacks the fields for patterns. No object gets a condition without
// its pattern, which any value would fulfill: neither a new one, nor one with surplus fields, which a merge patch removes.
//
//nolint:paralleltest // it replaces the shared cluster
func TestCRDWithoutPatterns(t *testing.T) {
	folder := clusterOfItsOwn(t)
	apply(t, "", withoutPatterns(t))
	startReady(t, folder)
	const pattern = `headers: '[{name: X-A, valueWildcard: "a*"}]'`
	isRejected := func(team string) bool {
		var list corev1.EventList
		get(t, "/api/v1/namespaces/"+team+"/events", &list)
		return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
			return event.Reason == httpv1alpha1.ReasonWriteRejected && strings.Contains(event.Message, "valueWildcard") &&
				strings.Contains(event.Message, "install that of this project")
		})
	}
	fresh := namespace(t, "fresh")
	apply(t, fresh, shop(`{hosts: shop.test, port: "80", service: shop, `+pattern+`}`))
	await.True(t, "the write is rejected", func() bool { return isRejected(fresh) })
	if get(t, httpScaledObject(fresh, "shop"), new(httpv1alpha1.HTTPScaledObject)) {
		t.Error("the object was made without its pattern")
	}

	edited := namespace(t, "edited")
	apply(t, edited, shop(simple))
	before := awaitObject(t, edited, "shop", "made", there)
	apply(t, edited, shop(`{hosts: shop.test, portName: http, service: shop, `+pattern+`}`)) // port becomes surplus
	await.True(t, "the write is rejected", func() bool { return isRejected(edited) })
	if after := awaitObject(t, edited, "shop", "there", there); !cmp.Equal(before.Spec, after.Spec) {
		t.Errorf("the object changed:\n%s", cmp.Diff(before.Spec, after.Spec))
	}
}
