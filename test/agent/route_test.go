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
	"github.com/kedify/argo-rollouts-plugin/test/kit/openshift"
)

// openShiftRoute returns Route web, with everything else that the agent must not change. Its router keeps no sessions, so
// that no settings are taken over.
func openShiftRoute() string {
	return `{apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: web, annotations: {
		haproxy.router.openshift.io/disable_cookies: "true", haproxy.router.openshift.io/timeout: 2m}}, spec: {
		host: shop.test, path: /api, to: {kind: Service, name: shop, weight: 90},
		alternateBackends: [{kind: Service, name: cart, weight: 10}, {kind: Service, name: kiosk, weight: 0}],
		port: {targetPort: 8000}, wildcardPolicy: None,
		httpHeaders: {actions: {response: [{name: X-Frame-Options, action: {type: Set, set: {value: DENY}}}]}},
		tls: {termination: edge, insecureEdgeTerminationPolicy: Redirect, certificate: "a", key: "b"}}}`
}

// routeOf returns the path of Route web of a namespace.
func routeOf(namespace string) string {
	return "/apis/route.openshift.io/v1/namespaces/" + namespace + "/routes/web"
}

// targets returns the backends and the port of a Route.
func (w web) targets() string {
	spec, _ := w["spec"].(map[string]any)
	found := []string{fmt.Sprint(spec["to"].(map[string]any)["name"])}
	for _, target := range all(spec, "alternateBackends") {
		found = append(found, fmt.Sprint(target["name"]))
	}
	port, _ := spec["port"].(map[string]any)
	return fmt.Sprintf("%s at %v", strings.Join(found, ", "), port["targetPort"])
}

// awaitRoute waits until Route web of a namespace is wired, or not. It returns the object.
func awaitRoute(t *testing.T, namespace string, isWired bool) web {
	t.Helper()
	want := "shop, cart, kiosk at 8000"
	if isWired {
		want = "kedify-proxy, cart, kiosk at http"
	}
	var found web
	seen := ""
	await.Described(t, namespace+": backends "+want, func() bool {
		found = web{}
		if get(t, routeOf(namespace), &found) {
			seen = found.targets()
		}
		return seen == want
	}, func() string { return seen })
	return found
}

// servicesOfRoute returns the Services of Route web. The ports of all have the name of the proxies' port.
func servicesOfRoute() []string {
	var services []string
	for _, name := range []string{"shop", "cart", "kiosk"} {
		services = append(services, `{apiVersion: v1, kind: Service, metadata: {name: `+name+`}, spec: {ports: [
			{name: http, port: 80, targetPort: 8000}, {name: admin, port: 81, targetPort: 8001}]}}`)
	}
	return services
}

// routeKind returns the kind of the object.
func routeKind() wiredKind {
	return wiredKind{"routes", routeOf, awaitRoute}
}

// wiredRoute returns a namespace with a wired Route, and its original.
func wiredRoute(t *testing.T, name string) (team string, before web) {
	t.Helper()
	team = namespace(t, name)
	apply(t, team, append(servicesOfRoute(), openShiftRoute(), shop(simple))...)
	return team, routeKind().wire(t, team)
}

// TestRoute wires a Route of OpenShift's real schema, and follows it to its end.
func TestRoute(t *testing.T) {
	t.Parallel()
	team, before := wiredRoute(t, "openshift")
	routeKind().checkLife(t, team, before, "ingress,httproute,virtualservice", "route")
}

// TestRouteWithoutProxies makes the only proxy unready, and ready again.
func TestRouteWithoutProxies(t *testing.T) {
	t.Parallel()
	team, before := wiredRoute(t, "openshift-lost")
	endpoint(t, team, false)
	awaitRoute(t, team, false)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	endpoint(t, team, true)
	awaitRoute(t, team, true)
	remove(t, scaledObject(team, "shop"))
	awaitRoute(t, team, false)
	routeKind().awaitReleased(t, team)
	restored := awaitRoute(t, team, false)
	areOriginal(t, []web{before}, []web{restored})
}

// TestRestoredRoute behaves like a GitOps tool: it applies the original.
func TestRestoredRoute(t *testing.T) {
	t.Parallel()
	team, _ := wiredRoute(t, "openshift-gitops")
	original, err := yaml.YAMLToJSON([]byte(openShiftRoute()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		awaitRoute(t, team, true)
		err := shared.admin.Patch(types.ApplyPatchType).AbsPath(routeOf(team)).Param("fieldManager", "argocd-controller").
			Param("force", "true").Body(original).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	found := awaitRoute(t, team, false)
	if text, _ := found.annotations()[httpv1alpha1.AnnotationAutowireHold].(string); !strings.Contains(text, `"by":"argocd-controller","times":2`) {
		t.Errorf("annotations %v", found.annotations())
	}
	awaitRoute(t, team, true) // after the cool-down
}

// TestAppliedAlternateBackend applies the original of a Route whose alternate backend is wired. Server-side apply keeps
// both backends, of which the agent removes its own.
func TestAppliedAlternateBackend(t *testing.T) {
	t.Parallel()
	team := namespace(t, "openshift-applied")
	original, err := yaml.YAMLToJSON([]byte(strings.NewReplacer("name: shop", "name: cart", "name: cart", "name: shop").
		Replace(openShiftRoute())))
	if err != nil {
		t.Fatal(err)
	}
	applyAll := func() {
		err := shared.admin.Patch(types.ApplyPatchType).AbsPath(routeOf(team)).Param("fieldManager", "argocd-controller").
			Param("force", "true").Body(original).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	isTargets := func(want string, times int) {
		t.Helper()
		seen, reverts := "", fmt.Sprintf(`"by":"argocd-controller","times":%d`, times)
		await.Described(t, "backends "+want, func() bool {
			found := web{}
			if get(t, routeOf(team), &found) {
				text, _ := found.annotations()[httpv1alpha1.AnnotationAutowireHold].(string)
				seen = found.targets() + " " + text
			}
			return strings.HasPrefix(seen, want) && (times == 0 || strings.Contains(seen, reverts))
		}, func() string { return seen })
	}
	apply(t, team, append(servicesOfRoute(), shop(simple))...)
	applyAll()
	proxies(t, team, true)
	programmed(t, team, "shop")
	isTargets("cart, kedify-proxy, kiosk at http", 0)
	applyAll()
	isTargets("cart, kedify-proxy, kiosk at http", 1)
	applyAll()
	isTargets("cart, shop, kiosk at 8000", 2)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	remove(t, scaledObject(team, "shop"))
	awaitGone(t, team, "shop")
}

// TestHostOfRoute has a Route whose host a router reports in the status. Its generation stays, as that of every Route of
// OpenShift's API server.
func TestHostOfRoute(t *testing.T) {
	t.Parallel()
	team, _ := wiredRoute(t, "openshift-host")
	patch(t, routeOf(team), `{"spec": {"host": null, "subdomain": "shop"}}`)
	report := func(host string) {
		patch(t, routeOf(team)+"/status", `{"status": {"ingress": [{"host": "`+host+`", "routerName": "default"}]}}`)
	}
	report("cart.test")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNoMatchingBackend)
	awaitRoute(t, team, false)
	report("shop.test")
	awaitRoute(t, team, true)
}

// TestRolloutWithOpenShift creates and deletes a Rollout whose traffic router manages the Route.
func TestRolloutWithOpenShift(t *testing.T) {
	t.Parallel()
	team, before := wiredRoute(t, "openshift-routed")
	apply(t, team, rollout(`{canary: {stableService: shop, canaryService: cart, trafficRouting: {plugins: {
		argoproj-labs/openshift: {routes: [web]}}}}}`, template))
	areOriginal(t, []web{before}, []web{awaitRoute(t, team, false)})
	awaitObject(t, team, "shop", "managed by the router", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonManagedByTrafficRouter && strings.Contains(found.Message,
			"plugin argoproj-labs/openshift of Rollout openshift-routed/myapp manages its weights")
	})
	remove(t, "/apis/argoproj.io/v1alpha1/namespaces/"+team+"/rollouts/myapp")
	awaitRoute(t, team, true)
}

// TestOpenShiftIsInstalledLater has an agent that starts before OpenShift's CRD exists, and with the roles of an earlier
// version. It becomes ready, and wires a Route as soon as both are there. Then it starts without the permission: what is
// wired stays, with its proxies.
//
//nolint:paralleltest // it replaces the shared cluster
func TestOpenShiftIsInstalledLater(t *testing.T) {
	folder := clusterOfItsOwn(t)
	applyFiles(t, "", manifests+"crd/http.keda.sh_httpscaledobjects.yaml")
	apply(t, "", earlierRoles(t, "routes")...)
	agent := startReady(t, folder)
	team := namespace(t, "later")
	apply(t, team, append(servicesOfRoute(), shop(simple))...)
	awaitParts(t, team, len(proxyParts))
	endpoints := slice(t, team)
	programmed(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNoMatchingBackend)

	t.Log("OpenShift's CRD is installed")
	crd, err := openshift.CRD(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, "", crd)
	apply(t, team, openShiftRoute())
	const fix = "the agent may not list and watch routes.route.openshift.io: grant it the permission"
	awaitObject(t, team, "shop", "the missing permission", func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == httpv1alpha1.ReasonPermissionMissing && strings.Contains(found.Message, fix)
	})
	if log, err := os.ReadFile(filepath.Join(folder, "agent.log")); err != nil || !strings.Contains(string(log), fix) {
		t.Errorf("the log does not contain %q: %v", fix, err)
	}
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitRoute(t, team, true)

	t.Log("the agent starts without the permission")
	if err := agent.Kill(); err != nil {
		t.Fatal(err)
	}
	apply(t, "", earlierRoles(t, "routes")...)
	again := filepath.Join(folder, "again")
	if err := os.Mkdir(again, 0o700); err != nil {
		t.Fatal(err)
	}
	startReady(t, again)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonPermissionMissing)
	awaitRoute(t, team, true)
	applyFiles(t, "", manifests+"agent/rbac.yaml")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	remove(t, scaledObject(team, "shop"))
	awaitRoute(t, team, false)
	remove(t, endpoints)
	awaitParts(t, team, 0)
}
