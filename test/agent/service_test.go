package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// clientService is a Service of clients outside and inside of the cluster. Its second port has the default target.
const clientService = `{apiVersion: v1, kind: Service, metadata: {name: shop, labels: {team: a}, annotations: {example.com/team: a}},
	spec: {type: LoadBalancer, selector: {app: shop}, sessionAffinity: None, loadBalancerSourceRanges: [10.0.0.0/8], ports: [
	{name: http, port: 80, targetPort: 8000}, {name: alternative, port: 8000, appProtocol: http}]}}`

// byClients is a trigger whose Service may be taken over.
const byClients = `{hosts: "*", port: "80", service: shop, trafficAutowire: service}`

// serviceAt returns the path of a Service.
func serviceAt(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/services/" + name
}

// selects returns the value of label app in a Service's selector, and the targets of its ports.
func (w web) selects() string {
	spec, _ := w["spec"].(map[string]any)
	selector, _ := spec["selector"].(map[string]any)
	words := []any{selector["app"]}
	for _, port := range all(spec, "ports") {
		words = append(words, port["targetPort"])
	}
	return strings.TrimSuffix(fmt.Sprintln(words...), "\n")
}

// awaitClients waits until Service shop selects the Pods with a label app. It returns the Service.
func awaitClients(t *testing.T, namespace, app string) web {
	t.Helper()
	want := map[string]string{"shop": "shop 8000 8000", "kedify-proxy": "kedify-proxy http http"}[app] //nolint:dupword // of two ports
	var found web
	await.Described(t, namespace+": Service shop selects "+want, func() bool {
		found = web{}
		return get(t, serviceAt(namespace, "shop"), &found) && found.selects() == want
	}, func() string { return found.selects() })
	return found
}

// endpointsOf sets the EndpointSlice of a Service, as the controller of Kubernetes would.
func endpointsOf(t *testing.T, namespace, service, address string) {
	t.Helper()
	apply(t, namespace, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: `+service+`, labels: {kubernetes.io/service-name: `+service+`}},
		addressType: IPv4, ports: [{name: http, port: 8000}], endpoints: [{addresses: [`+address+`], conditions: {ready: true}}]}`)
}

// The addresses of the application and, in EndpointSlices of Service kedify-proxy, of the proxies.
const application, proxy = "10.0.0.9", "10.0.0.1"

// awaitForwards waits until an HTTPScaledObject forwards to a Service.
func awaitForwards(t *testing.T, namespace, service string) {
	t.Helper()
	awaitObject(t, namespace, "shop", "forwards to "+service, func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.ScaleTargetRef.Service == service
	})
}

// takenOver returns a namespace with a Service that selects the proxies, and its original.
func takenOver(t *testing.T, name string) (team string, before web) {
	t.Helper()
	team = namespace(t, name)
	apply(t, team, clientService)
	endpointsOf(t, team, "shop", application)
	before = awaitClients(t, team, "shop")
	apply(t, team, shop(byClients))
	awaitParts(t, team, len(proxyParts))
	slice(t, team)
	fallback := web{}
	await.True(t, "the fallback Service exists", func() bool { return get(t, serviceAt(team, "shop-fallback"), &fallback) })
	awaitForwards(t, team, "shop") // the fallback Service has no endpoints
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNotProgrammed)
	endpointsOf(t, team, "shop-fallback", application)
	awaitForwards(t, team, "shop-fallback")
	programmed(t, team, "shop")
	awaitClients(t, team, "kedify-proxy")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	endpointsOf(t, team, "shop", proxy)
	return team, before
}

// TestClientService takes over a Service, opts out and in again, restores it by its annotation, and deletes the
// ScaledObject. The proxies forward to the fallback Service until no client reaches them. Everything else stays as its user
// wrote it.
func TestClientService(t *testing.T) {
	t.Parallel()
	team, before := takenOver(t, "clients")
	fallback := web{}
	get(t, serviceAt(team, "shop-fallback"), &fallback)
	if got := fallback.selects(); got != "shop 8000 8000" {
		t.Errorf("the fallback Service selects %s", got)
	}
	apply(t, team, shop(`{hosts: "*", port: "80", service: shop, trafficAutowire: "false"}`))
	areOriginal(t, []web{before}, []web{awaitClients(t, team, "shop")})
	awaitWiring(t, team, "shop", "")
	awaitForwards(t, team, "shop-fallback") // clients still reach the proxies
	endpointsOf(t, team, "shop", application)
	awaitForwards(t, team, "shop")
	awaitUnmanaged(t, team)

	apply(t, team, shop(byClients))
	awaitForwards(t, team, "shop-fallback")
	programmed(t, team, "shop")
	record, _ := awaitClients(t, team, "kedify-proxy").annotations()[httpv1alpha1.AnnotationAutowireUndo].(string)
	text, err := shared.admin.Patch(types.JSONPatchType).AbsPath(serviceAt(team, "shop")).Body([]byte(record)).DoRaw(t.Context())
	undone := web{}
	if err := errors.Join(err, json.Unmarshal(text, &undone)); err != nil {
		t.Fatal(err)
	}
	areOriginal(t, []web{before}, []web{undone})

	awaitClients(t, team, "kedify-proxy")
	endpointsOf(t, team, "shop", proxy)
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, []web{before}, []web{awaitClients(t, team, "shop")})
	awaitObject(t, team, "shop", "waits for the endpoints", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired) == nil
	})
	endpointsOf(t, team, "shop", application)
	awaitGone(t, team, "shop")
	awaitUnmanaged(t, team)
	await.True(t, "the fallback Service is unused", func() bool {
		unused := web{}
		return get(t, serviceAt(team, "shop-fallback"), &unused) && unused.annotations()[httpv1alpha1.AnnotationProxyUnneeded] != nil
	})
	patch(t, serviceAt(team, "shop-fallback"), `{"metadata": {"annotations": {"`+httpv1alpha1.AnnotationProxyUnneeded+`": "2026-01-01T00:00:00Z"}}}`)
	await.True(t, "the fallback Service is deleted", func() bool { return !get(t, serviceAt(team, "shop-fallback"), &web{}) })
}

// TestClientServiceWithoutSelector gives a Service the selector of its fallback Service as soon as no one else maintains its
// endpoints, takes it over, and lets it keep the selector.
func TestClientServiceWithoutSelector(t *testing.T) {
	t.Parallel()
	team := namespace(t, "no-selector")
	apply(t, team, strings.Replace(clientService, "selector: {app: shop}, ", "", 1))
	apply(t, team, `{apiVersion: v1, kind: Service, metadata: {name: shop-direct}, spec: {selector: {app: shop}, ports: [
		{name: http, port: 80, targetPort: 8000}, {name: alternative, port: 8000}]}}`)
	endpointsOf(t, team, "shop", application)
	endpointsOf(t, team, "shop-direct", application)
	apply(t, team, shop(`{hosts: "*", port: "80", service: shop, fallbackService: shop-direct, trafficAutowire: service}`))
	awaitParts(t, team, len(proxyParts))
	slice(t, team)
	awaitForwards(t, team, "shop-direct")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonUnsupportedSetting)
	remove(t, "/apis/discovery.k8s.io/v1/namespaces/"+team+"/endpointslices/shop")
	before := awaitClients(t, team, "shop")
	awaitUnmanaged(t, team)
	programmed(t, team, "shop")
	awaitClients(t, team, "kedify-proxy")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, []web{before}, []web{awaitClients(t, team, "shop")})
	awaitUnmanaged(t, team)
}

// awaitUnmanaged waits until the agent manages no field of Service shop.
func awaitUnmanaged(t *testing.T, namespace string) {
	t.Helper()
	await.True(t, "no field is managed by the agent", func() bool {
		found := web{}
		return get(t, serviceAt(namespace, "shop"), &found) && found.writtenAt(t).IsZero()
	})
}

// TestClientServiceWithoutProxies makes the only proxy unready, and ready again.
func TestClientServiceWithoutProxies(t *testing.T) {
	t.Parallel()
	team, before := takenOver(t, "clients-lost")
	endpoint(t, team, false)
	awaitClients(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	awaitForwards(t, team, "shop-fallback")
	endpoint(t, team, true)
	awaitClients(t, team, "kedify-proxy")
	remove(t, scaledObject(team, "shop"))
	restored := awaitClients(t, team, "shop")
	await.True(t, "no annotation of the agent is left", func() bool {
		restored = web{}
		return get(t, serviceAt(team, "shop"), &restored) && len(restored.annotations()) == 1
	})
	areOriginal(t, []web{before}, []web{restored})
}

// TestRestoredClientService behaves like a GitOps tool: it applies the original.
func TestRestoredClientService(t *testing.T) {
	t.Parallel()
	team, _ := takenOver(t, "clients-gitops")
	original, err := yaml.YAMLToJSON([]byte(clientService))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		awaitClients(t, team, "kedify-proxy")
		err := shared.admin.Patch(types.ApplyPatchType).AbsPath(serviceAt(team, "shop")).Param("fieldManager", "argocd-controller").
			Param("force", "true").Body(original).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	found := awaitClients(t, team, "shop") // also the target that the manifest omits
	if text, _ := found.annotations()[httpv1alpha1.AnnotationAutowireHold].(string); !strings.Contains(text, `"by":"argocd-controller","times":2`) {
		t.Errorf("annotations %v", found.annotations())
	}
	awaitClients(t, team, "kedify-proxy") // after the cool-down
}

// TestFallbackOfUser has the fallback Service of a user, which the agent never writes, and a second HTTPScaledObject that
// forwards to the Service: then the proxies would send requests to themselves.
func TestFallbackOfUser(t *testing.T) {
	t.Parallel()
	team := namespace(t, "clients-own")
	apply(t, team, clientService, `{apiVersion: v1, kind: Service, metadata: {name: shop-direct}, spec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8000}]}}`)
	endpointsOf(t, team, "shop-direct", application)
	apply(t, team, shop(`{hosts: "*", port: "80", service: shop, fallbackService: shop-direct, trafficAutowire: service}`))
	awaitParts(t, team, len(proxyParts))
	slice(t, team)
	awaitForwards(t, team, "shop-direct")
	programmed(t, team, "shop")
	awaitClients(t, team, "kedify-proxy")
	own := web{}
	get(t, serviceAt(team, "shop-direct"), &own)
	if managers := all(own["metadata"], "managedFields"); slices.ContainsFunc(managers, func(entry map[string]any) bool {
		return entry["manager"] == httpv1alpha1.ManagedByAgent
	}) {
		t.Errorf("the agent has written the user's Service: %v", managers)
	}
	apply(t, team, `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: other}, spec: {hosts: [other.test],
		scaleTargetRef: {name: shop, service: shop, port: 80}}}`)
	awaitClients(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonUnsupportedSetting)
}

// writeAs writes a Service as a user, without storing it: it applies a new one, and changes fields of another one.
func writeAs(t *testing.T, user, namespace, name string, object map[string]any) error {
	t.Helper()
	if !get(t, serviceAt(namespace, name), &web{}) {
		meta, _ := object["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["name"], object["metadata"] = name, meta
		return applyAs(t, user, serviceAt(namespace, name), object)
	}
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return shared.admin.Patch(types.MergePatchType).AbsPath(serviceAt(namespace, name)).Param("dryRun", "All").
		SetHeader("Impersonate-User", user).Body(body).Do(t.Context()).Error()
}

// TestAdmissionOfServices applies Services that the roles of the agent allow and the agent never writes: the API server
// rejects each of them.
func TestAdmissionOfServices(t *testing.T) {
	t.Parallel()
	team := namespace(t, "admission-services")
	apply(t, team, clientService, `{apiVersion: v1, kind: Service, metadata: {name: taken, annotations: {http.kedify.io/autowire-undo: "[]"}}, spec: {
		selector: {app: kedify-proxy}, ports: [{port: 80}]}}`, `{apiVersion: v1, kind: Service, metadata: {name: unselected}, spec: {ports: [{port: 80}]}}`)
	own := `labels: {app.kubernetes.io/managed-by: kedify-http-agent}`
	for name, test := range map[string]struct{ name, object, want string }{
		"a fallback Service":     {"shop-fallback", `{metadata: {` + own + `}, spec: {selector: {app: shop}, ports: [{port: 80}]}}`, ""},
		"another's":              {"theirs", `{spec: {selector: {app: shop}, ports: [{port: 80}]}}`, "may only create and delete Services with label"},
		"a published one":        {"public", `{metadata: {` + own + `}, spec: {type: NodePort, selector: {app: shop}, ports: [{port: 80}]}}`, "of type ClusterIP with a selector"},
		"an external address":    {"public", `{metadata: {` + own + `}, spec: {externalIPs: [192.0.2.1], selector: {app: shop}, ports: [{port: 80}]}}`, "of type ClusterIP with a selector"},
		"no selector":            {"none", `{metadata: {` + own + `}, spec: {ports: [{port: 80}]}}`, "of type ClusterIP with a selector"},
		"an adopted one":         {"shop", `{metadata: {` + own + `}}`, "may only create and delete Services with label"},
		"other Pods":             {"shop", `{spec: {selector: {app: other}}}`, "let a Service select the proxies"},
		"a selector, added":      {"unselected", `{spec: {selector: {app: shop}}}`, ""},
		"a selector, removed":    {"shop", `{spec: {selector: null}}`, "may give a selector to a Service without one, let a Service select"},
		"another type":           {"shop", `{spec: {type: NodePort, loadBalancerSourceRanges: null}}`, "may change the selector of a Service, and the targets of its ports"},
		"an address":             {"shop", `{spec: {externalIPs: [192.0.2.1]}}`, "may change the selector of a Service, and the targets of its ports"},
		"one more port":          {"shop", `{spec: {ports: [{name: more, port: 90}]}}`, "may change the selector of a Service, and the targets of its ports"},
		"the proxies":            {"shop", `{spec: {selector: {app: kedify-proxy}}}`, ""},
		"what it has taken over": {"taken", `{spec: {selector: {app: shop}}}`, ""},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(test.object), &object); err != nil {
			t.Fatal(err)
		}
		maps.Copy(object, map[string]any{"apiVersion": "v1", "kind": "Service"})
		var got error
		await.Described(t, name, func() bool { // a new policy is effective after some time
			got = writeAs(t, account, team, test.name, object)
			return (got == nil) == (test.want == "")
		}, func() string { return "the API server answers " + errorText(got) })
		if got != nil && !strings.Contains(got.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, got, test.want)
		}
	}
}
