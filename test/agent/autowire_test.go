package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/controllers"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// The originals have a backend for shop's trigger, and another one.
const (
	originalIngress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {
		tls: [{hosts: [shop.test], secretName: shop}], rules: [{host: shop.test, http: {paths: [
		{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}},
		{path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}}]}}`
	originalRoute = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web}, spec: {
		parentRefs: [{name: gateway, namespace: gateways}], hostnames: [shop.test], rules: [
		{backendRefs: [{name: shop, port: 80, weight: 9, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}]}]},
		{matches: [{path: {value: /cart}, headers: [{name: tenant, value: a}]}], backendRefs: [{name: cart, port: 80}]}]}}`
)

// paths are those of Ingress web and HTTPRoute web.
func paths(namespace string) []string {
	return []string{
		"/apis/networking.k8s.io/v1/namespaces/" + namespace + "/ingresses/web",
		"/apis/gateway.networking.k8s.io/v1/namespaces/" + namespace + "/httproutes/web",
	}
}

// proxies creates Service kedify-proxy and its only endpoint, ready or not.
func proxies(t *testing.T, namespace string, isReady bool) {
	t.Helper()
	apply(t, namespace,
		`{apiVersion: v1, kind: Service, metadata: {name: kedify-proxy}, spec: {ports: [{name: http, port: 8080}]}}`)
	endpoint(t, namespace, isReady)
}

// endpoint sets the only endpoint of Service kedify-proxy, ready or not.
func endpoint(t *testing.T, namespace string, isReady bool) {
	t.Helper()
	apply(t, namespace,
		fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}},
			addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1], conditions: {ready: %v}}]}`, isReady))
}

// web is a stored Ingress or HTTPRoute.
type web map[string]any

// webs reads Ingress web and HTTPRoute web, if they exist.
func webs(t *testing.T, namespace string) []web {
	t.Helper()
	var found []web
	for _, path := range paths(namespace) {
		one := web{}
		if get(t, path, &one) {
			found = append(found, one)
		}
	}
	return found
}

// annotations returns the annotations of an object.
func (w web) annotations() map[string]any {
	found, _ := w["metadata"].(map[string]any)["annotations"].(map[string]any)
	return found
}

// heldSince returns the time in the cool-down annotation.
func (w web) heldSince(t *testing.T) time.Time {
	t.Helper()
	text, _ := w.annotations()[httpv1alpha1.AnnotationAutowireHold].(string)
	var hold struct{ At time.Time }
	if err := json.Unmarshal([]byte(text), &hold); err != nil {
		t.Fatalf("annotations %v: %v", w.annotations(), err)
	}
	return hold.At
}

// writtenAt returns when the agent last wrote an object, according to managedFields.
func (w web) writtenAt(t *testing.T) time.Time {
	t.Helper()
	var last time.Time
	for _, entry := range all(w["metadata"], "managedFields") {
		if entry["manager"] != httpv1alpha1.ManagedByAgent {
			continue
		}
		text, _ := entry["time"].(string)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		last = slices.MaxFunc([]time.Time{last, at}, time.Time.Compare)
	}
	return last
}

// all returns the elements of a list in an object.
func all(object any, list string) []map[string]any {
	var found []map[string]any
	fields, _ := object.(map[string]any)
	items, _ := fields[list].([]any)
	for _, item := range items {
		found = append(found, item.(map[string]any))
	}
	return found
}

// backends returns the Services and ports of an object.
func (w web) backends() string {
	var found []string
	for _, rule := range all(w["spec"], "rules") {
		for _, path := range all(rule["http"], "paths") {
			service := path["backend"].(map[string]any)["service"].(map[string]any)
			for _, port := range service["port"].(map[string]any) {
				found = append(found, fmt.Sprintf("%v:%v", service["name"], port))
			}
		}
		for _, ref := range all(rule, "backendRefs") {
			name := fmt.Sprintf("%v:%v", ref["name"], ref["port"])
			if namespace, is := ref["namespace"]; is {
				name = fmt.Sprintf("%v/%s", namespace, name)
			}
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

// awaitBackends waits until Ingress web and HTTPRoute web have the given backends. The route may have others as
// well.
func awaitBackends(t *testing.T, namespace, want string, ofRoute ...string) []web {
	t.Helper()
	wants := slices.Concat([]string{want, want}[:2-len(ofRoute)], ofRoute)
	var found []web
	await.True(t, namespace+": backends "+want, func() bool {
		found = webs(t, namespace)
		for i, one := range found {
			if one.backends() != wants[i] {
				return false
			}
		}
		return len(found) > 0
	})
	return found
}

// awaitNoAnnotation waits until Ingress web and HTTPRoute web have no annotation.
func awaitNoAnnotation(t *testing.T, namespace string) {
	t.Helper()
	await.True(t, "no annotation is left", func() bool {
		return !slices.ContainsFunc(webs(t, namespace), func(one web) bool { return len(one.annotations()) > 0 })
	})
}

// awaitWiring waits until condition Autowired has a reason, or is absent if that is empty.
func awaitWiring(t *testing.T, namespace, name, reason string) {
	t.Helper()
	awaitObject(t, namespace, name, "Autowired because "+reason, func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found == nil && reason == "" || found != nil && found.Reason == reason
	})
}

// areOriginal fails unless objects have their original content, except versions and managers.
func areOriginal(t *testing.T, before, after []web) {
	t.Helper()
	for _, one := range slices.Concat(before, after) {
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			delete(one["metadata"].(map[string]any), field)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("they are not as they were (-before +after):\n%s", diff)
	}
}

// wiredNamespace returns a namespace with a wired Ingress and HTTPRoute, and their originals.
func wiredNamespace(t *testing.T, name string) (team string, before []web) {
	t.Helper()
	return wiredBy(t, name, func(team string) {
		t.Helper()
		apply(t, team, originalIngress, originalRoute)
	})
}

// wiredBy returns a wiredNamespace with an Ingress and HTTPRoute that a function creates.
func wiredBy(t *testing.T, name string, create func(team string)) (team string, before []web) {
	t.Helper()
	team = namespace(t, name)
	create(team)
	apply(t, team, shop(simple))
	before = webs(t, team)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	proxies(t, team, true)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNotProgrammed)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	return team, before
}

// TestWireAndRestore opts out and in again, restores without the agent, and deletes the ScaledObject.
func TestWireAndRestore(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "wired")

	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitWiring(t, team, "shop", "")
	awaitReleased(t, team)

	apply(t, team, shop(simple))
	var undone []web
	for i, one := range awaitBackends(t, team, "kedify-proxy:8080 cart:80") {
		text, err := shared.admin.Patch(types.JSONPatchType).AbsPath(paths(team)[i]).
			Body([]byte(one.annotations()[httpv1alpha1.AnnotationAutowireUndo].(string))).DoRaw(t.Context())
		object := web{}
		if err := errors.Join(err, json.Unmarshal(text, &object)); err != nil {
			t.Fatal(err)
		}
		undone = append(undone, object)
	}
	areOriginal(t, before, undone)

	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitGone(t, team, "shop")
	awaitReleased(t, team)

	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]int{}
	for _, event := range events {
		isDone := event.Verb == "patch" && event.ResponseStatus.Code == http.StatusOK
		if isDone && event.ObjectRef.Namespace == team {
			written[event.ObjectRef.Resource]++
		}
	}
	for _, resource := range []string{"ingresses", "httproutes"} {
		if want := 7; written[resource] != want { // thrice wired, twice restored, twice released
			t.Errorf("%d writes of %s, want %d", written[resource], resource, want)
		}
	}
}

// awaitReleased waits until the agent manages no field of Ingress web and HTTPRoute web.
func awaitReleased(t *testing.T, namespace string) {
	t.Helper()
	await.True(t, "no field is managed by the agent", func() bool {
		return !slices.ContainsFunc(webs(t, namespace), func(one web) bool { return !one.writtenAt(t).IsZero() })
	})
}

// TestAuthorChangesRestoredObjects has a chart whose tool never forces server-side apply, as Helm 4: its changes of rules
// are a conflict while they are wired, and none before and afterwards.
func TestAuthorChangesRestoredObjects(t *testing.T) {
	t.Parallel()
	chart := func(team, cart string) (conflicts int) {
		t.Helper()
		for i, manifest := range []string{originalIngress, originalRoute} {
			text, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(manifest, "/cart", cart)))
			if err != nil {
				t.Fatal(err)
			}
			err = shared.admin.Patch(types.ApplyPatchType).AbsPath(paths(team)[i]).Param("fieldManager", "helm").
				Body(text).Do(t.Context()).Error()
			if isConflict := apierrors.IsConflict(err); err != nil && !isConflict {
				t.Fatal(err)
			} else if isConflict {
				conflicts++
			}
		}
		return conflicts
	}
	team, _ := wiredBy(t, "chart", func(team string) {
		t.Helper()
		if n := chart(team, "/old") + chart(team, "/cart"); n > 0 {
			t.Errorf("%d conflicts before the agent has written anything", n)
		}
	})
	if n := chart(team, "/basket"); n != 2 {
		t.Errorf("%d conflicts while both are wired, want 2", n)
	}
	for _, cart := range []string{"/basket", "/trolley"} {
		apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
		awaitBackends(t, team, "shop:80 cart:80")
		awaitReleased(t, team)
		if n := chart(team, cart); n > 0 {
			t.Errorf("path %s: %d conflicts after the agent has restored both", cart, n)
		}
		apply(t, team, shop(simple))
		awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	}
}

// TestSingleKind has a trigger that allows HTTPRoutes only, then Ingresses only.
func TestSingleKind(t *testing.T) {
	t.Parallel()
	team, _ := wiredNamespace(t, "kinds")
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: httproute}`))
	awaitBackends(t, team, "shop:80 cart:80", "kedify-proxy:8080 cart:80")
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: ingress}`))
	awaitBackends(t, team, "kedify-proxy:8080 cart:80", "shop:80 cart:80")
}

// TestRolloutWithGatewayAPIPlugin creates and deletes a Rollout whose plugin argoproj-labs/gatewayAPI manages the
// HTTPRoute.
func TestRolloutWithGatewayAPIPlugin(t *testing.T) {
	t.Parallel()
	team, _ := wiredNamespace(t, "routed")
	says := func(what string) {
		t.Helper()
		awaitObject(t, team, "shop", what, func(object *httpv1alpha1.HTTPScaledObject) bool {
			found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
			return found != nil && strings.Contains(found.Message, what)
		})
	}
	apply(t, team, rollout(`{canary: {stableService: shop, canaryService: cart, trafficRouting: {plugins: {
		argoproj-labs/gatewayAPI: {httpRoute: web}}}}}`, template))
	awaitBackends(t, team, "kedify-proxy:8080 cart:80", "shop:80 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	says("HTTPRoute web, shop.test/: plugin argoproj-labs/gatewayAPI of Rollout routed/myapp manages its weights")
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: httproute}`))
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonManagedByTrafficRouter)
	remove(t, "/apis/argoproj.io/v1alpha1/namespaces/"+team+"/rollouts/myapp")
	awaitBackends(t, team, "shop:80 cart:80", "kedify-proxy:8080 cart:80")
}

// TestDeleteAfterRestore removes the trigger: Ingress and HTTPRoute are restored while the proxies still serve the
// object.
func TestDeleteAfterRestore(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "order")
	patch(t, scaledObject(team, "shop"), `{"spec": {"triggers": [{"type": "cpu", "metadata": {"value": "50"}}]}}`)
	awaitGone(t, team, "shop")
	areOriginal(t, before, webs(t, team))
}

// TestProxiesBecomeUnready makes the only endpoint unready, and ready again.
func TestProxiesBecomeUnready(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "lost")
	proxies(t, team, false)
	lost := awaitBackends(t, team, "shop:80 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	proxies(t, team, true)
	for i, one := range awaitBackends(t, team, "kedify-proxy:8080 cart:80") {
		// The agent counts the cool-down from the full second of its annotation, so the full second of the write is precise
		// enough.
		if held, wired := lost[i].heldSince(t), one.writtenAt(t); wired.Sub(held) < coolDown {
			t.Errorf("%v was unwired at %v and wired again at %v, before the end of the cool-down of %v", one["kind"], held,
				wired, coolDown)
		}
	}
	proxies(t, team, false)
	awaitBackends(t, team, "shop:80 cart:80")
	remove(t, scaledObject(team, "shop"))
	awaitNoAnnotation(t, team)
	areOriginal(t, before, webs(t, team))
}

// TestProxiesTerminate scales the Deployment of the proxies to zero, and deletes it, while the proxies are still
// ready.
func TestProxiesTerminate(t *testing.T) {
	t.Parallel()
	team, _ := wiredNamespace(t, "ending")
	// What Kubernetes' own controllers do about a Deployment, which don't run here.
	says := func(status string) {
		t.Helper()
		patch(t, part("Deployment", team)+"/status", `{"status": `+status+`}`)
	}
	says(`{"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}`)
	patch(t, part("Deployment", team), `{"spec": {"replicas": 0}}`)
	awaitBackends(t, team, "shop:80 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	patch(t, part("Deployment", team), `{"spec": {"replicas": 1}}`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	remove(t, part("Deployment", team))
	awaitParts(t, team, len(proxyParts))
	says(`{"observedGeneration": 1, "replicas": 1}`) // the new one, whose Pod is not ready
	awaitBackends(t, team, "shop:80 cart:80")
	says(`{"readyReplicas": 1}`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
}

// TestEditWhileWired inserts a rule before the others, and adds a second ScaledObject for the same objects.
func TestEditWhileWired(t *testing.T) {
	t.Parallel()
	team, _ := wiredNamespace(t, "edited")
	rule := `{"host": "cart.test", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "cart", "port": {"name": "web"}}}}]}}`
	routeRule := `{"matches": [{"path": {"type": "Exact", "value": "/"}}], "backendRefs": [{"name": "cart", "port": 80}]}`
	for i, rule := range []string{rule, routeRule} {
		err := shared.admin.Patch(types.JSONPatchType).AbsPath(paths(team)[i]).Param("fieldManager", "user").
			Body([]byte(`[{"op": "add", "path": "/spec/rules/0", "value": ` + rule + `}]`)).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	const cart = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: cart}, spec: {scaleTargetRef: {name: cart}, triggers: [
		{type: kedify-http, metadata: {hosts: "cart.test,shop.test", pathPrefixes: "/cart,/", port: "80", service: cart}}]}}`
	apply(t, team, cart, `{apiVersion: v1, kind: Service, metadata: {name: cart}, spec: {ports: [{name: web, port: 80}]}}`)
	programmed(t, team, "cart")
	awaitBackends(t, team, strings.TrimSpace(strings.Repeat("kedify-proxy:8080 ", 3)))
	remove(t, scaledObject(team, "shop"))
	awaitBackends(t, team, "kedify-proxy:8080 shop:80 kedify-proxy:8080")
	remove(t, scaledObject(team, "cart"))
	awaitBackends(t, team, "cart:web shop:80 cart:80", "cart:80 shop:80 cart:80")
	awaitNoAnnotation(t, team)
}

// TestRepeatedRestores behaves like a GitOps tool: it applies the original whenever the object differs.
func TestRepeatedRestores(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "gitops")
	restore := func() {
		t.Helper()
		for i, original := range []string{originalIngress, originalRoute} {
			err := shared.admin.Patch(types.ApplyYAMLPatchType).AbsPath(paths(team)[i]).
				Param("fieldManager", "argocd-controller").
				Param("force", "true").Body([]byte(original)).Do(t.Context()).Error()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	areHeld := func(what, contains string) {
		t.Helper()
		await.True(t, what, func() bool {
			return !slices.ContainsFunc(webs(t, team), func(one web) bool {
				text, _ := one.annotations()[httpv1alpha1.AnnotationAutowireHold].(string)
				return !strings.Contains(text, contains)
			})
		})
	}
	restore()
	areHeld("it is wired again, and who restored it is known", `"by":"argocd-controller","times":1`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	restore()
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	awaitBackends(t, team, "shop:80 cart:80")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	// Until autowiring stops.
	for _, path := range paths(team) {
		patch(t, path, `{"metadata": {"annotations": {"http.kedify.io/autowire-hold":
			"{\"reason\":\"BackendRevertedByOther\",\"at\":\"`+time.Now().UTC().Format(time.RFC3339)+`\",\"times\":4}"}}}`)
	}
	restore()
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonBackendRevertedByOther)
	areHeld("it is left alone", `"times":5`)
	remove(t, scaledObject(team, "shop"))
	awaitNoAnnotation(t, team)
	areOriginal(t, before, webs(t, team))
}

// TestConcurrentAgents runs a second agent next to the elected one, like an agent that has lost the Lease without
// noticing it yet.
func TestConcurrentAgents(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "two")
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme),
		discoveryv1.AddToScheme(scheme),
		httpv1alpha1.AddToScheme(scheme), apis.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(shared.Config(apiserver.AdminToken), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	other := controllers.AutowireReconciler{
		Client: direct, APIReader: direct, Events: record.NewFakeRecorder(1000), Now: time.Now, CoolDown: coolDown,
		ScalerAddress: scaler,
		IsInstalled:   func(schema.GroupVersionKind) bool { return true },
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		rounds := 0
		for ; ctx.Err() == nil; rounds++ {
			// A write of the other one in between is a conflict, or changes nothing.
			if _, err := other.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: team}}); err != nil &&
				ctx.Err() == nil {
				t.Error(err)
			}
		}
		ended <- rounds
	}()
	for range 3 {
		proxies(t, team, false)
		awaitBackends(t, team, "shop:80 cart:80")
		proxies(t, team, true)
		awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	}
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	patch(t, scaledObject(team, "shop"), `{"spec": {"triggers": [{"type": "cpu", "metadata": {"value": "50"}}]}}`)
	awaitGone(t, team, "shop")
	stop()
	t.Logf("%d rounds of the other agent", <-ended)
	awaitNoAnnotation(t, team)
	areOriginal(t, before, webs(t, team))
}
