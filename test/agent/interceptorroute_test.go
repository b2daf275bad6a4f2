package agent_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// routed is an InterceptorRoute, and routedBy a ScaledObject with a trigger that names it, as users of the KEDA HTTP
// add-on have them.
const (
	routed = `
apiVersion: http.keda.sh/v1beta1
kind: InterceptorRoute
metadata: {name: web}
spec:
  target: {service: web, port: 80}
  rules: [{hosts: [web.test]}]
  scalingMetric: {concurrency: {targetValue: 10}}
`
	routedBy = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web}
spec:
  scaleTargetRef: {name: web}
  triggers:
    - type: external-push
      metadata: {scalerAddress: keda-add-ons-http-external-scaler.keda:9090, interceptorRoute: web}
`
)

// awaitRouteInstalled waits until condition ProxyInstalled of InterceptorRoute web has a reason, and none if that is
// empty. It returns the message.
func awaitRouteInstalled(t *testing.T, namespace, reason string) (message string) {
	t.Helper()
	path := "/apis/http.keda.sh/v1beta1/namespaces/" + namespace + "/interceptorroutes/web"
	await.True(t, "ProxyInstalled of the InterceptorRoute because "+reason, func() bool {
		var route httpv1beta1.InterceptorRoute
		if !get(t, path, &route) {
			return false
		}
		found := meta.FindStatusCondition(route.Status.Conditions, httpv1alpha1.ConditionProxyInstalled)
		if found != nil {
			message = found.Message
		}
		return found == nil && reason == "" || found != nil && found.Reason == reason
	})
	return message
}

// TestProxiesOfInterceptorRoutes: an InterceptorRoute that a trigger names has proxies, and the condition about them. The
// agent creates no HTTPScaledObject for the trigger. After the trigger, the proxies are removed.
func TestProxiesOfInterceptorRoutes(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-routes")
	apply(t, team, `{apiVersion: v1, kind: ConfigMap, metadata: {name: kedify-proxy-bootstrap}, data: {mine: "1"}}`,
		routed, routedBy)
	message := awaitRouteInstalled(t, team, httpv1alpha1.ReasonNameInUse)
	await.True(t, "an Event about the InterceptorRoute", func() bool {
		var list corev1.EventList
		get(t, "/api/v1/namespaces/"+team+"/events", &list)
		return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == httpv1alpha1.ReasonNameInUse &&
				event.Message == message && event.InvolvedObject.Kind == httpv1beta1.Kind && event.InvolvedObject.Name == "web"
		})
	})
	remove(t, part("ConfigMap", team))
	awaitParts(t, team, len(proxyParts))
	awaitRouteInstalled(t, team, "")
	if get(t, httpScaledObject(team, "web"), new(httpv1alpha1.HTTPScaledObject)) {
		t.Error("the agent has created an HTTPScaledObject")
	}
	remove(t, scaledObject(team, "web"))
	awaitParts(t, team, 0)
}

// TestInterceptorRouteWithoutTrigger: an InterceptorRoute alone needs no proxies. It gets them with its trigger, in any
// order, and they are removed with the InterceptorRoute.
func TestInterceptorRouteWithoutTrigger(t *testing.T) {
	t.Parallel()
	team := namespace(t, "fleet-no-route")
	apply(t, team, routed)
	last := namespace(t, "fleet-routes-bound") // what comes after is reconciled after
	apply(t, last, routedBy, routed)
	awaitParts(t, last, len(proxyParts))
	if found := parts(t, team); len(found) > 0 {
		t.Errorf("without a trigger there is %v", found)
	}
	remove(t, "/apis/http.keda.sh/v1beta1/namespaces/"+last+"/interceptorroutes/web")
	awaitParts(t, last, 0)
}
