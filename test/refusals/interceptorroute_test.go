package refusals_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	apitypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// interceptorRoute is an InterceptorRoute with two rules for one host, with the Service shop-stable.
const interceptorRoute = `
apiVersion: http.keda.sh/v1beta1
kind: InterceptorRoute
metadata: {name: shop, annotations: {http.kedify.io/fleet: shared}}
spec:
  target: {service: shop-stable, portName: http}
  rules: [{hosts: [%[1]s], paths: [{value: /cart}]}, {hosts: [%[1]s]}]
  timeouts: {readiness: 10s}
  scalingMetric: {concurrency: {targetValue: 10}, requestRate: {targetValue: 100}}
`

// routePath returns the REST path of an InterceptorRoute.
func routePath(namespace, name string) string {
	return "/apis/" + httpv1beta1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1beta1.Resource +
		"/" + name
}

// awaitRoute waits until a condition of the InterceptorRoute shop has a reason.
func (s *environment) awaitRoute(t *testing.T, namespace, kind, reason string) {
	t.Helper()
	await.True(t, kind+" has reason "+reason, func() bool {
		route := read[httpv1beta1.InterceptorRoute](t, s, routePath(namespace, "shop"))
		found := meta.FindStatusCondition(route.Status.Conditions, kind)
		return found != nil && found.Reason == reason
	})
}

// checkInterceptorRoute switches an application from an HTTPScaledObject to an InterceptorRoute of the same name and
// back, with a canary in between, under load. The CustomResourceDefinition is installed while the interceptor runs.
func (s *environment) checkInterceptorRoute(t *testing.T) {
	const namespace = "switch"
	s.createNamespace(t, namespace)
	host := hostName(namespace, "shop")
	stop := startLoad(t, host)
	definition, err := os.ReadFile(config + "crd/http.keda.sh_interceptorroutes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, "", string(definition))
	s.apply(t, namespace, fmt.Sprintf(interceptorRoute, host))
	s.awaitRoute(t, namespace, httpv1alpha1.ConditionAccepted, httpv1beta1.ReasonHTTPScaledObjectExists)
	expectAnswers(t, host, "canary") // of the HTTPScaledObject

	s.remove(t, objectPath(namespace, "shop"))
	expectAnswers(t, host, "stable") // of the InterceptorRoute
	s.awaitRoute(t, namespace, httpv1alpha1.ConditionAccepted, httpv1alpha1.ReasonAccepted)
	s.awaitRoute(t, namespace, httpv1alpha1.ConditionProgrammed, httpv1alpha1.ReasonProgrammed)

	rollout := routeRollout(namespace)
	s.setWeight(t, rollout, 50)
	await.True(t, "the canary answers", func() bool { return answers(t, host, 1)["canary"] == 1 })
	s.setWeight(t, rollout, 100)
	expectAnswers(t, host, "canary")
	s.setWeight(t, rollout, 0)
	expectAnswers(t, host, "stable")

	s.apply(t, namespace, scaledObject("shop", host, allToCanary))
	expectAnswers(t, host, "canary")
	s.awaitRoute(t, namespace, httpv1alpha1.ConditionAccepted, httpv1beta1.ReasonHTTPScaledObjectExists)
	s.remove(t, routePath(namespace, "shop"))
	s.expectConditions(t, namespace, "shop", accepted())
	expectAnswers(t, host, "canary")
	stop()
}

// routeRollout returns a Rollout that names the InterceptorRoute shop.
func routeRollout(namespace string) *v1alpha1.Rollout {
	rollout := routertest.Rollout(httpso.Type, `{"interceptorRoute":"shop"}`)
	rollout.Namespace, rollout.Name, rollout.UID = namespace, "shop", apitypes.UID("uid-of-shop-in-"+namespace)
	canary := rollout.Spec.Strategy.Canary
	canary.StableService, canary.CanaryService = "shop-stable", "shop-canary"
	return rollout
}
