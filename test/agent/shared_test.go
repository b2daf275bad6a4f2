package agent_test

import (
	"path"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// sharedShop returns an HTTPScaledObject of the shared fleet, with the kinds of objects to wire for it.
func sharedShop(kinds string) string {
	return `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, annotations: {http.kedify.io/fleet: shared,
		http.kedify.io/traffic-autowire: "` + kinds + `"}}, spec: {hosts: [shop.test], scaleTargetRef: {service: shop, port: 80}}}`
}

// grantPath returns the path of the agent's ReferenceGrant for a namespace.
func grantPath(namespace string) string {
	return "/apis/gateway.networking.k8s.io/v1beta1/namespaces/keda/referencegrants/kedify-proxy-" + namespace
}

// TestSharedFleet has an object of another namespace that requests the shared fleet: proxies are installed in the
// interceptor's namespace, and the HTTPRoute references them once a ReferenceGrant permits it. Everything is
// restored, and deleted.
func TestSharedFleet(t *testing.T) {
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
	var old, grant apis.ReferenceGrant
	if !get(t, grantPath(team), &old) {
		t.Fatal("it is wired without a ReferenceGrant")
	}
	remove(t, grantPath(team))
	await.True(t, "there is another ReferenceGrant", func() bool {
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
	patch(t, httpScaledObject(team, "shop"),
		`{"metadata": {"annotations": {"http.kedify.io/traffic-autowire": "ingress,httproute"}}}`)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonUnsupportedSetting)
	awaitBackends(t, team, direct, elsewhere)

	t.Log("a user says no")
	if !get(t, grantPath(team), &grant) {
		t.Fatal("it is wired without a ReferenceGrant")
	}
	deleted := len(deletions(t, team))
	patch(t, httpScaledObject(team, "shop"), `{"metadata": {"annotations": {"http.kedify.io/traffic-autowire": "false"}}}`)
	awaitBackends(t, team, direct)
	awaitNoAnnotation(t, team)
	areOriginal(t, before, webs(t, team))
	await.True(t, "the ReferenceGrant is gone", func() bool { return !get(t, grantPath(team), &grant) })
	stayed(t, team, &grant, deleted)
	remove(t, httpScaledObject(team, "shop"))
	remove(t, "/apis/discovery.k8s.io/v1/namespaces/keda/endpointslices/proxies")
	awaitParts(t, "keda", 0)
	if found := parts(t, team); len(found) > 0 {
		t.Errorf("in the object's own namespace there is %v", found)
	}
}

// deletions returns the times at which the API server received the agent's requests to delete the ReferenceGrant
// for a namespace.
func deletions(t *testing.T, namespace string) []time.Time {
	t.Helper()
	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for _, event := range events {
		if event.Verb == "delete" && event.ObjectRef.Resource == "referencegrants" &&
			event.ObjectRef.Name == path.Base(grantPath(namespace)) {
			times = append(times, event.RequestReceivedTimestamp)
		}
	}
	return times
}

// stayed fails unless a ReferenceGrant stayed for 10 s after the time from which, by its last annotation, nothing
// relied on it. There were some deletions before its own.
func stayed(t *testing.T, namespace string, grant *apis.ReferenceGrant, before int) {
	t.Helper()
	states := history(t, grantPath(namespace), grant.ResourceVersion, func(apis.ReferenceGrant) bool { return false })
	unneeded := states[len(states)-1].Annotations[httpv1alpha1.AnnotationProxyUnneeded]
	since, err := time.Parse(time.RFC3339, unneeded)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the audit log has the deletion of the ReferenceGrant",
		func() bool { return len(deletions(t, namespace)) > before })
	if at := deletions(t, namespace)[before]; at.Sub(since) < 10*time.Second {
		t.Errorf("the ReferenceGrant is not needed since %v, and was deleted at %v", since, at)
	}
}
