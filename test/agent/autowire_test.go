package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/objects"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/reconcile"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
)

// originalIngress has a backend for shop's trigger, by the port's name, and another one.
const originalIngress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {
	tls: [{hosts: [shop.test], secretName: shop}], rules: [{host: shop.test, http: {paths: [
	{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}},
	{path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}}]}}`

// ingressPath is the path of Ingress web.
func ingressPath(namespace string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/ingresses/web"
}

// proxies makes Service kedify-proxy and its one endpoint, ready or not.
func proxies(t *testing.T, namespace string, isReady bool) {
	t.Helper()
	apply(t, namespace, `{apiVersion: v1, kind: Service, metadata: {name: kedify-proxy}, spec: {ports: [{name: http, port: 8080}]}}`,
		fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}},
			addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1], conditions: {ready: %v}}]}`, isReady))
}

// programmed says, as the interceptor does, that every Ready proxy has an HTTPScaledObject.
func programmed(t *testing.T, namespace, name string) {
	t.Helper()
	found := await(t, namespace, name, "made", there)
	body := fmt.Sprintf(`{"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject", "metadata": {"name": %q}, "status": {"conditions": [
		{"type": "Programmed", "status": "True", "reason": "Programmed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		"observedGeneration": %d}]}}`, name, found.Generation)
	path := httpScaledObject(namespace, name) + "/status"
	if err := shared.admin.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "interceptor").
		Body([]byte(body)).Do(t.Context()).Error(); err == nil {
		return
	}
	// The definition has no place for it: so it is written where the interceptor writes then.
	status, err := json.Marshal(fmt.Sprintf(`{"uid": %q, "conditions": [{"type": "Programmed", "status": "True", "observedGeneration": %d}]}`,
		found.UID, found.Generation))
	if err != nil {
		t.Fatal(err)
	}
	patch(t, httpScaledObject(namespace, name), `{"metadata": {"annotations": {"http.kedify.io/status": `+string(status)+`}}}`)
}

// web reads Ingress web.
func web(t *testing.T, namespace string) *networkingv1.Ingress {
	t.Helper()
	found := new(networkingv1.Ingress)
	get(t, ingressPath(namespace), found)
	return found
}

// backendsOf are the Services and ports of an Ingress.
func backendsOf(ingress *networkingv1.Ingress) string {
	var found []string
	for _, rule := range ingress.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			service := path.Backend.Service
			found = append(found, fmt.Sprintf("%s:%s%d", service.Name, service.Port.Name, service.Port.Number))
		}
	}
	return strings.Join(found, " ")
}

// awaitBackends waits until Ingress web has certain backends.
func awaitBackends(t *testing.T, namespace, want string) *networkingv1.Ingress {
	t.Helper()
	var found *networkingv1.Ingress
	testkit.Eventually(t, patience, namespace+": backends "+want, func() bool {
		found = web(t, namespace)
		return backendsOf(found) == want
	})
	return found
}

// awaitWiring waits until condition Autowired has a reason, and none if that is empty.
func awaitWiring(t *testing.T, namespace, name, reason string) {
	t.Helper()
	await(t, namespace, name, "Autowired because "+reason, func(object *httpv1alpha1.HTTPScaledObject) bool {
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found == nil && reason == "" || found != nil && found.Reason == reason
	})
}

// isOriginal fails unless an Ingress is as it was, but for its version and who wrote it.
func isOriginal(t *testing.T, before, after *networkingv1.Ingress) {
	t.Helper()
	for _, ingress := range []*networkingv1.Ingress{before, after} {
		ingress.ResourceVersion, ingress.ManagedFields, ingress.Generation = "", nil, 0
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("it is not as it was (-before +after):\n%s", diff)
	}
}

// wiredNamespace is a namespace with an Ingress that is wired, and the Ingress as it was.
func wiredNamespace(t *testing.T, name string) (team string, before *networkingv1.Ingress) {
	t.Helper()
	team = namespace(t, name)
	apply(t, team, originalIngress, shop(simple))
	before = web(t, team)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	proxies(t, team, true)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNotProgrammed)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	return team, before
}

// TestAnIngressIsWiredAndRestored opts out and in again, undoes it without the agent, and deletes the ScaledObject.
func TestAnIngressIsWiredAndRestored(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "wired")

	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "false"}`))
	isOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitWiring(t, team, "shop", "")

	apply(t, team, shop(simple))
	wired := awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	undone := new(networkingv1.Ingress)
	err := shared.admin.Patch(types.JSONPatchType).AbsPath(ingressPath(team)).
		Body([]byte(wired.Annotations[httpv1alpha1.AnnotationAutowireUndo])).Do(t.Context()).Into(undone)
	if err != nil {
		t.Fatal(err)
	}
	undone.TypeMeta = before.TypeMeta
	isOriginal(t, before, undone)

	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	remove(t, scaledObject(team, "shop"))
	isOriginal(t, before, awaitBackends(t, team, "shop:80 cart:80"))
	awaitGone(t, team, "shop")

	events, err := shared.audit.Of(account)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, event := range events {
		if event.ObjectRef.Namespace == team && event.ObjectRef.Resource == "ingresses" && event.ResponseStatus.Code == http.StatusOK {
			written++
		}
	}
	if want := 5; written != want { // thrice wired, twice restored
		t.Errorf("%d writes of the Ingress, want %d", written, want)
	}
}

// TestAnObjectGoesAfterItsIngresses takes the trigger away: the Ingress is restored while the proxies still
// have the route.
func TestAnObjectGoesAfterItsIngresses(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "order")
	patch(t, scaledObject(team, "shop"), `{"spec": {"triggers": [{"type": "cpu", "metadata": {"value": "50"}}]}}`)
	awaitGone(t, team, "shop")
	isOriginal(t, before, web(t, team))
}

// TestTheProxiesAreLost has the one endpoint become unready, and ready again.
func TestTheProxiesAreLost(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "lost")
	proxies(t, team, false)
	began := time.Now()
	found := awaitBackends(t, team, "shop:80 cart:80")
	t.Logf("the direct backend came back after %v", time.Since(began))
	if found.Annotations[httpv1alpha1.AnnotationAutowireHold] == "" {
		t.Errorf("annotations %v", found.Annotations)
	}
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	proxies(t, team, true)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	if took := time.Since(began); took < time.Second { // of two, of which one may be cut off
		t.Errorf("wired again after %v", took)
	}
	proxies(t, team, false)
	awaitBackends(t, team, "shop:80 cart:80")
	remove(t, scaledObject(team, "shop"))
	testkit.Eventually(t, patience, "no annotation is left", func() bool { return len(web(t, team).Annotations) == 0 })
	isOriginal(t, before, web(t, team))
}

// TestAUserEditsWhileWired adds a rule before the others and a second ScaledObject on the same Ingress.
func TestAUserEditsWhileWired(t *testing.T) {
	t.Parallel()
	team, _ := wiredNamespace(t, "edited")
	rule := `{"host": "cart.test", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "cart", "port": {"name": "web"}}}}]}}`
	err := shared.admin.Patch(types.JSONPatchType).AbsPath(ingressPath(team)).Param("fieldManager", "user").
		Body([]byte(`[{"op": "add", "path": "/spec/rules/0", "value": ` + rule + `}]`)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	const cart = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: cart}, spec: {scaleTargetRef: {name: cart}, triggers: [
		{type: kedify-http, metadata: {hosts: "cart.test,shop.test", pathPrefixes: "/cart,/", port: "80", service: cart}}]}}`
	apply(t, team, cart, `{apiVersion: v1, kind: Service, metadata: {name: cart}, spec: {ports: [{name: web, port: 80}]}}`)
	programmed(t, team, "cart")
	awaitBackends(t, team, strings.TrimSpace(strings.Repeat("kedify-proxy:8080 ", 3)))
	remove(t, scaledObject(team, "shop"))
	awaitBackends(t, team, "kedify-proxy:8080 shop:80 kedify-proxy:8080")
	remove(t, scaledObject(team, "cart"))
	found := awaitBackends(t, team, "cart:web0 shop:80 cart:80")
	if len(found.Annotations) > 0 {
		t.Errorf("annotations %v", found.Annotations)
	}
}

// TestAToolWritesTheOriginalBack has what a GitOps tool does: applying the original whenever it is not there.
func TestAToolWritesTheOriginalBack(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "gitops")
	restore := func() {
		t.Helper()
		err := shared.admin.Patch(types.ApplyYAMLPatchType).AbsPath(ingressPath(team)).Param("fieldManager", "argocd-controller").
			Param("force", "true").Body([]byte(originalIngress)).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	restore()
	testkit.Eventually(t, patience, "it is wired again, and who restored it is known", func() bool {
		return strings.Contains(web(t, team).Annotations[httpv1alpha1.AnnotationAutowireHold], `"by":"argocd-controller","times":1`)
	})
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	restore()
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonRestored)
	awaitBackends(t, team, "shop:80 cart:80")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	// So often that it is left alone.
	patch(t, ingressPath(team), `{"metadata": {"annotations": {"http.kedify.io/autowire-hold":
		"{\"reason\":\"Restored\",\"at\":\"`+time.Now().UTC().Format(time.RFC3339)+`\",\"times\":4}"}}}`)
	restore()
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonRestored)
	testkit.Eventually(t, patience, "it is left alone", func() bool {
		return strings.Contains(web(t, team).Annotations[httpv1alpha1.AnnotationAutowireHold], `"times":5`)
	})
	remove(t, scaledObject(team, "shop"))
	testkit.Eventually(t, patience, "no annotation is left", func() bool { return len(web(t, team).Annotations) == 0 })
	isOriginal(t, before, web(t, team))
}

// TestTwoAgentsAtOnce has a second agent beside the elected one, as in the moment in which one has lost the Lease and
// does not know it yet.
func TestTwoAgentsAtOnce(t *testing.T) {
	t.Parallel()
	team, before := wiredNamespace(t, "two")
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme),
		httpv1alpha1.AddToScheme(scheme), objects.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(shared.Config(controlplane.AdminToken), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	other := reconcile.Autowirer{
		Client: direct, Stored: direct, Events: record.NewFakeRecorder(1000), Now: time.Now, CoolDown: 2 * time.Second, ScalerAddress: scaler,
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		rounds := 0
		for ; ctx.Err() == nil; rounds++ {
			// What one of them has written in between is a conflict, or no news.
			if _, err := other.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: team}}); err != nil && ctx.Err() == nil {
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
	testkit.Eventually(t, patience, "no annotation is left", func() bool { return len(web(t, team).Annotations) == 0 })
	isOriginal(t, before, web(t, team))
}
