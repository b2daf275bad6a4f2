package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/istio"
)

// installIstio applies Istio's CRDs.
func installIstio(t *testing.T) {
	t.Helper()
	crds, err := istio.CRDs(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, "", crds...)
}

// virtualService returns VirtualService web of a namespace: one destination with a full name, one with a short name and
// no port, and everything else that the agent must not change.
func virtualService(namespace string) string {
	return `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: web}, spec: {
		gateways: [istio-ingress/public, mesh], hosts: [shop.test, "*.www.test"], exportTo: ["*"], http: [
		{match: [{uri: {exact: /old}}], redirect: {uri: /}},
		{name: cart, match: [{uri: {prefix: /cart}, headers: {tenant: {exact: a}}}], route: [{destination: {host: cart, port: {number: 80}}}]},
		{name: shop, match: [{uri: {prefix: /}}], timeout: 10s, retries: {attempts: 2, perTryTimeout: 2s},
		mirrors: [{destination: {host: shop, port: {number: 80}}, percentage: {value: 10}}], headers: {response: {remove: [b]}}, route: [
		{weight: 90, destination: {host: shop.` + namespace + `.svc.cluster.local, port: {number: 80}}, headers: {request: {remove: [a]}}},
		{weight: 10, destination: {host: shop}}]}],
		tcp: [{match: [{port: 9000}], route: [{destination: {host: shop, port: {number: 80}}}]}]}}`
}

// serviceOf returns the path of VirtualService web of a namespace. v1 is not the version that the agent uses.
func serviceOf(namespace string) string {
	return "/apis/networking.istio.io/v1/namespaces/" + namespace + "/virtualservices/web"
}

// destinations returns the hosts and ports of the HTTP routes of a VirtualService.
func (w web) destinations() string {
	var found []string
	for _, rule := range all(w["spec"], "http") {
		for _, route := range all(rule, "route") {
			destination := route["destination"].(map[string]any)
			port, _ := destination["port"].(map[string]any)
			found = append(found, fmt.Sprintf("%v:%v", destination["host"], port["number"]))
		}
	}
	return strings.Join(found, " ")
}

// awaitService waits until VirtualService web of a namespace is wired, or not. It returns the object.
func awaitService(t *testing.T, namespace string, isWired bool) web {
	t.Helper()
	want := "cart:80 shop." + namespace + ".svc.cluster.local:80 shop:<nil>"
	if isWired {
		want = "cart:80 kedify-proxy." + namespace + ".svc.cluster.local:8080 kedify-proxy:8080"
	}
	var found web
	seen := ""
	await.Described(t, namespace+": destinations "+want, func() bool {
		found = web{}
		if get(t, serviceOf(namespace), &found) {
			seen = found.destinations()
		}
		return seen == want
	}, func() string { return seen })
	return found
}

// istioService returns the kind of the object.
func istioService() wiredKind {
	return wiredKind{"virtualservices", serviceOf, awaitService}
}

// wiredService returns a namespace with a wired VirtualService, and its original.
func wiredService(t *testing.T, name string) (team string, before web) {
	t.Helper()
	team = namespace(t, name)
	apply(t, team, virtualService(team), shop(simple),
		`{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{name: http, port: 80}]}}`)
	return team, istioService().wire(t, team)
}

// TestVirtualService wires a VirtualService of Istio's real schema, and follows it to its end.
func TestVirtualService(t *testing.T) {
	t.Parallel()
	team, before := wiredService(t, "mesh")
	istioService().checkLife(t, team, before, "ingress,httproute", "virtualservice")
}

// TestVirtualServiceWithoutProxies makes the only proxy unready, and ready again.
func TestVirtualServiceWithoutProxies(t *testing.T) {
	t.Parallel()
	team, before := wiredService(t, "mesh-lost")
	endpoint(t, team, false)
	awaitService(t, team, false)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	endpoint(t, team, true)
	awaitService(t, team, true)
	remove(t, scaledObject(team, "shop"))
	restored := awaitService(t, team, false)
	await.True(t, "no annotation is left", func() bool {
		restored = web{}
		return get(t, serviceOf(team), &restored) && len(restored.annotations()) == 0
	})
	areOriginal(t, []web{before}, []web{restored})
}

// TestRestoredVirtualService behaves like a GitOps tool: it applies the original.
func TestRestoredVirtualService(t *testing.T) {
	t.Parallel()
	team, _ := wiredService(t, "mesh-gitops")
	original, err := yaml.YAMLToJSON([]byte(virtualService(team)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		awaitService(t, team, true)
		err := shared.admin.Patch(types.ApplyPatchType).AbsPath(serviceOf(team)).Param("fieldManager", "argocd-controller").
			Param("force", "true").Body(original).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	found := awaitService(t, team, false)
	if text, _ := found.annotations()[httpv1alpha1.AnnotationAutowireHold].(string); !strings.Contains(text, `"by":"argocd-controller","times":2`) {
		t.Errorf("annotations %v", found.annotations())
	}
	awaitService(t, team, true) // after the cool-down
}

// TestRolloutWithIstio creates and deletes a Rollout whose traffic router manages the VirtualService.
func TestRolloutWithIstio(t *testing.T) {
	t.Parallel()
	team, before := wiredService(t, "mesh-routed")
	apply(t, team, rollout(`{canary: {stableService: shop, canaryService: cart, trafficRouting: {istio: {
		virtualService: {name: web, routes: [shop]}}}}}`, template))
	areOriginal(t, []web{before}, []web{awaitService(t, team, false)})
	awaitObject(t, team, "shop", "managed by the router", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonManagedByTrafficRouter &&
			strings.Contains(found.Message, "traffic router istio of Rollout mesh-routed/myapp manages its weights")
	})
	remove(t, "/apis/argoproj.io/v1alpha1/namespaces/"+team+"/rollouts/myapp")
	awaitService(t, team, true)
}

// TestDestinationRule has a DestinationRule that makes Istio use TLS to the application, and one with session affinity.
func TestDestinationRule(t *testing.T) {
	t.Parallel()
	team, _ := wiredService(t, "mesh-rules")
	rule := func(policy string) string {
		return `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: shop}, spec: {host: shop, trafficPolicy: ` +
			policy + `}}`
	}
	apply(t, team, rule(`{tls: {mode: SIMPLE}}`))
	awaitService(t, team, false)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProtocolMismatch)
	apply(t, team, rule(`{loadBalancer: {consistentHash: {httpHeaderName: X-User}}}`))
	const settings = `{"sessionAffinity":{"header":"x-user"}}`
	awaitObject(t, team, "shop", "the settings", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Annotations[httpv1alpha1.AnnotationAutowireSettings] == settings
	})
	acknowledged(t, team, "shop", settings)
	awaitService(t, team, true)
}

// TestIstioIsInstalledLater has an agent that starts before Istio's CRDs exist, and with the roles of an earlier version.
// It becomes ready, and wires a VirtualService as soon as both are there. Then it starts without the permission: what is
// wired stays, with its proxies.
//
//nolint:paralleltest // it replaces the shared cluster
func TestIstioIsInstalledLater(t *testing.T) {
	folder := clusterOfItsOwn(t)
	applyFiles(t, "", manifests+"crd/http.keda.sh_httpscaledobjects.yaml")
	removed := []string{"virtualservices", "destinationrules"}
	apply(t, "", earlierRoles(t, removed...)...)
	agent := startReady(t, folder)
	team := namespace(t, "later")
	apply(t, team, shop(simple),
		`{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{name: http, port: 80}]}}`)
	awaitParts(t, team, len(proxyParts))
	endpoints := slice(t, team)
	programmed(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNoMatchingBackend)

	t.Log("Istio's CRDs are installed")
	installIstio(t)
	apply(t, team, virtualService(team))
	const fix = "the agent may not list and watch virtualservices.networking.istio.io: grant it the permission"
	awaitObject(t, team, "shop", "the missing permission", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonPermissionMissing && strings.Contains(found.Message, fix)
	})
	if log, err := os.ReadFile(filepath.Join(folder, "agent.log")); err != nil || !strings.Contains(string(log), fix) {
		t.Errorf("the log does not contain %q: %v", fix, err)
	}

	t.Log("the permission for DestinationRules is missing")
	apply(t, "", earlierRoles(t, "destinationrules")...)
	awaitObject(t, team, "shop", "the missing permission", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonPermissionMissing &&
			strings.Contains(found.Message, "destinationrules.networking.istio.io")
	})
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitService(t, team, true)

	t.Log("the agent starts without them")
	if err := agent.Kill(); err != nil {
		t.Fatal(err)
	}
	apply(t, "", earlierRoles(t, removed...)...)
	again := filepath.Join(folder, "again")
	if err := os.Mkdir(again, 0o700); err != nil {
		t.Fatal(err)
	}
	startReady(t, again)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonPermissionMissing)
	awaitService(t, team, true)
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	remove(t, scaledObject(team, "shop"))
	awaitService(t, team, false)
	remove(t, endpoints)
	awaitParts(t, team, 0)
}
