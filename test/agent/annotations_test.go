package agent_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// annotateIngress sets an annotation of Ingress web, or removes it with a null.
func annotateIngress(t *testing.T, namespace, name, value string) {
	t.Helper()
	patch(t, paths(namespace)[0], fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, name, value))
}

// TestAnnotationsOfWiredIngress adds annotations to a wired Ingress and to the Services, and removes them again.
func TestAnnotationsOfWiredIngress(t *testing.T) {
	t.Parallel()
	team := namespace(t, "annotations")
	apply(t, team, originalIngress, shop(simple),
		`{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{name: http, port: 80}]}}`)
	proxies(t, team, true)
	programmed(t, team, "shop")
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	const rewrite = "nginx.ingress.kubernetes.io/rewrite-target"
	annotateIngress(t, team, rewrite, `"/$1"`)
	awaitBackends(t, team, "shop:80 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonUnsupportedAnnotation)
	annotateIngress(t, team, httpv1alpha1.AnnotationAutowireAccept, `"`+rewrite+`"`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")

	service := "/api/v1/namespaces/" + team + "/services/shop"
	patch(t, service, `{"metadata": {"annotations": {"haproxy.org/load-balance": "uri"}}}`)
	awaitBackends(t, team, "shop:80 cart:80")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonAffinityMissing)
	patch(t, scaledObject(team, "shop"), `{"spec": {"triggers": [{"type": "kedify-http", "metadata": {"hosts": "shop.test",
		"port": "80", "service": "shop", "sessionAffinity": "{cookie: {name: route}}"}}]}}`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
}

// TestTypeOfProxyService wires the Ingress of a load balancer that needs NodePorts once a user has changed the type of
// Service kedify-proxy, which the agent keeps.
func TestTypeOfProxyService(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-nodeport")
	apply(t, team, originalIngress)
	annotateIngress(t, team, "alb.ingress.kubernetes.io/scheme", `"internal"`)
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	slice(t, team)
	programmed(t, team, "shop")
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonServiceTypeMismatch)

	patch(t, part("Service", team), `{"spec": {"type": "NodePort"}}`)
	awaitBackends(t, team, "kedify-proxy:8080 cart:80")
	patch(t, part("Service", team), `{"spec": {"selector": {"app": "mine"}}}`) // the agent reverts its own fields
	await.True(t, "the selector is the agent's", func() bool {
		var service corev1.Service
		return get(t, part("Service", team), &service) && service.Spec.Selector["app"] == "kedify-proxy"
	})
	var service corev1.Service
	get(t, part("Service", team), &service)
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort == 0 {
		t.Errorf("type %s, ports %+v", service.Spec.Type, service.Spec.Ports)
	}
}

// TestTimeoutsOfTrigger sets a timeout in the trigger, and removes it again. Another one is a user's.
func TestTimeoutsOfTrigger(t *testing.T) {
	t.Parallel()
	team := namespace(t, "timeouts")
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, responseHeaderTimeout: 0s}`))
	awaitObject(t, team, "shop", "its timeout", func(object *httpv1alpha1.HTTPScaledObject) bool {
		timeouts := object.Spec.Timeouts
		return timeouts != nil && timeouts.ResponseHeader != nil && timeouts.ResponseHeader.Duration == 0
	})
	patch(t, httpScaledObject(team, "shop"), `{"spec": {"timeouts": {"conditionWait": "9s"}}}`)
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop}`))
	found := awaitObject(t, team, "shop", "no timeout", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.Timeouts == nil || object.Spec.Timeouts.ResponseHeader == nil
	})
	if wait := found.Spec.Timeouts; wait == nil || wait.ConditionWait == nil || *wait.ConditionWait != (metav1.Duration{Duration: 9e9}) {
		t.Errorf("timeouts %+v", wait)
	}
}
