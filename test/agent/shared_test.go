package agent_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/objects"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
)

// sharedShop is an HTTPScaledObject that the shared fleet serves, with the kinds of objects that are to be wired for it.
func sharedShop(kinds string) string {
	return `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, annotations: {http.kedify.io/fleet: shared,
		http.kedify.io/traffic-autowire: "` + kinds + `"}}, spec: {hosts: [shop.test], scaleTargetRef: {service: shop, port: 80}}}`
}

// grantPath is that of the agent's ReferenceGrant for a namespace.
func grantPath(namespace string) string {
	return "/apis/gateway.networking.k8s.io/v1beta1/namespaces/keda/referencegrants/kedify-proxy-" + namespace
}

// TestTheSharedFleet has an object of another namespace ask for it: proxies are installed in the interceptor's namespace, and the HTTPRoute is
// pointed there, once a ReferenceGrant lets it be. All of it comes back, and goes.
func TestTheSharedFleet(t *testing.T) {
	t.Parallel()
	const direct, elsewhere = "shop:80 cart:80", "keda/kedify-proxy:8080 cart:80"
	team := namespace(t, "fleet-shared")
	apply(t, team, originalIngress, originalRoute, sharedShop("httproute"))
	before := webs(t, team)
	awaitParts(t, "keda", len(proxyParts))
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	endpoint(t, "keda", true)
	programmed(t, team, "shop")
	awaitBackends(t, team, direct, elsewhere)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)

	t.Log("somebody deletes the ReferenceGrant")
	var old, grant objects.ReferenceGrant
	if !get(t, grantPath(team), &old) {
		t.Fatal("it is wired without a ReferenceGrant")
	}
	remove(t, grantPath(team))
	testkit.Eventually(t, patience, "there is another ReferenceGrant", func() bool {
		return get(t, grantPath(team), &grant) && grant.UID != old.UID
	})
	awaitBackends(t, team, direct, elsewhere)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)

	t.Log("the proxies are lost")
	endpoint(t, "keda", false)
	awaitBackends(t, team, direct)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	endpoint(t, "keda", true)
	wired := awaitBackends(t, team, direct, elsewhere)

	t.Log("somebody undoes it without the agent, who wires it again")
	undo, _ := wired[1].annotations()[httpv1alpha1.AnnotationAutowireUndo].(string)
	err := shared.admin.Patch(types.JSONPatchType).AbsPath(paths(team)[1]).Body([]byte(undo)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	awaitBackends(t, team, direct, elsewhere)

	t.Log("an Ingress is asked for, too, which cannot name another namespace")
	patch(t, httpScaledObject(team, "shop"), `{"metadata": {"annotations": {"http.kedify.io/traffic-autowire": "ingress,httproute"}}}`)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNotCarriedOut)
	awaitBackends(t, team, direct, elsewhere)

	t.Log("a user says no")
	patch(t, httpScaledObject(team, "shop"), `{"metadata": {"annotations": {"http.kedify.io/traffic-autowire": "false"}}}`)
	began := time.Now()
	awaitBackends(t, team, direct)
	awaitNoAnnotation(t, team)
	areOriginal(t, before, webs(t, team))
	testkit.Eventually(t, patience, "the ReferenceGrant is gone", func() bool { return !get(t, grantPath(team), &grant) })
	if took := time.Since(began); took < 8*time.Second { // of ten, of which one may be cut off
		t.Errorf("the ReferenceGrant went %v after the route", took)
	}
	remove(t, httpScaledObject(team, "shop"))
	remove(t, "/apis/discovery.k8s.io/v1/namespaces/keda/endpointslices/proxies")
	awaitParts(t, "keda", 0)
	if found := parts(t, team); len(found) > 0 {
		t.Errorf("in the object's own namespace there is %v", found)
	}
}
