package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// gracePeriod is how long a transient state may last, e.g. a missing report on a new object, or a missing metric.
const patience = time.Minute

// dataPlane checks the components that apply the weights of Rollouts with HTTPRouter.
func dataPlane(cluster *facts.Facts) []Finding {
	if !cluster.Use(facts.HTTPRouter) {
		return nil
	}
	found, isThere := definition(cluster)
	if cluster.Knows(facts.Deployments) {
		found = append(found, interceptor(cluster)...)
	}
	if !isThere || !cluster.Knows(facts.HTTPScaledObjects) {
		return found
	}
	seen := map[types.NamespacedName]bool{}
	for _, r := range using(cluster, facts.HTTPRouter) {
		if r.ObjectError != nil {
			continue
		}
		objects := cluster.ObjectsOf(r)
		if len(objects) == 0 {
			found = append(found, Finding{
				Code: HTTPScaledObjectNotFound, Severity: Error, Object: named("Rollout", r.Namespace, r.Name),
				Field:   fmt.Sprintf("%s[%q].httpScaledObjectName", pluginsOf, facts.HTTPRouter),
				Message: fmt.Sprintf("HTTPScaledObject %q does not exist in namespace %q", r.Object, r.Namespace),
				Remedy:  "create it, or correct the name. If the agent is installed, create a ScaledObject of that name with a kedify-http trigger instead",
			})
			continue
		}
		for _, object := range objects {
			name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
			if !seen[name] {
				found = append(found, judged(cluster, object)...)
				found = append(found, proxied(cluster, object)...)
			}
			seen[name] = true
		}
	}
	return found
}

// crd checks the CustomResourceDefinition of HTTPScaledObjects, and reports whether it exists.
func definition(cluster *facts.Facts) ([]Finding, bool) {
	if !cluster.Knows(facts.Definitions) {
		return nil, true
	}
	const name = facts.HTTPScaledObjectsDefinition
	const apply = "kubectl apply --server-side --force-conflicts -f config/crd"
	there, is := cluster.Definitions[name]
	object := named("CustomResourceDefinition", "", name)
	switch {
	case !is:
		return []Finding{{
			Code: DefinitionMissing, Severity: Error, Object: object,
			Message: "not installed: HTTPScaledObjects cannot be created", Remedy: apply,
		}}, false
	case !slices.Contains(there.Served, httpv1alpha1.Version):
		return []Finding{{
			Code: DefinitionMissing, Severity: Error, Object: object, Field: "spec.versions",
			Message: fmt.Sprintf("serves versions %v, but the interceptor requires %s", there.Served, httpv1alpha1.Version), Remedy: apply,
		}}, false
	case !slices.Contains(there.StatusFields, "dataPlane"):
		owner := cmp.Or(there.Annotations["meta.helm.sh/release-name"], there.Labels["app.kubernetes.io/managed-by"],
			there.Labels["app.kubernetes.io/name"], "unknown")
		return []Finding{{
			Code: DefinitionForeign, Severity: Warning, Object: object, Field: "spec.versions",
			Message: fmt.Sprintf("installed by another owner (%s) and has no field status.dataPlane: the interceptor reports in annotation %s instead, which requires an additional permission",
				owner, httpv1alpha1.AnnotationStatus),
			Remedy: apply + ", which accepts the same objects (docs/reference/status.md)",
		}}, true
	}
	return nil, true
}

// interceptor checks the Deployment of the interceptor.
func interceptor(cluster *facts.Facts) []Finding {
	if cluster.Interceptor == nil {
		return []Finding{{
			Code: InterceptorNotFound, Severity: Error, Object: "Deployment keda/keda-add-ons-http-interceptor",
			Message: "no Deployment has the labels app.kubernetes.io/name=http-add-on and app.kubernetes.io/component=interceptor: proxies receive no weights",
			Remedy:  "kubectl apply --server-side --force-conflicts -k config/interceptor",
		}}
	}
	if ready, is := readiness(cluster.Interceptor); !is {
		return []Finding{{
			Code: InterceptorNotReady, Severity: Error, Object: named("Deployment", cluster.Interceptor.Namespace, cluster.Interceptor.Name),
			Field: "status.readyReplicas", Message: ready + ": proxies keep their configuration and receive no new weights",
			Remedy: fmt.Sprintf("see kubectl -n %s describe pods -l app.kubernetes.io/component=interceptor, and the log of the Pods", cluster.Interceptor.Namespace),
		}}
	}
	return nil
}

// objectConditions reports the conditions of an object that the interceptor or the agent has set to False.
func judged(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) []Finding {
	var found []Finding
	name := named(httpv1alpha1.Kind, object.Namespace, object.Name)
	conditions := httpv1alpha1.StatusOf(object).Conditions
	// A condition without observedGeneration is about the current generation.
	isPast := func(c *metav1.Condition) bool {
		return c.ObservedGeneration != 0 && c.ObservedGeneration < object.Generation
	}
	for _, kind := range []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionReady, httpv1alpha1.ConditionTriggerAccepted, httpv1alpha1.ConditionScalingMetricAccepted,
	} {
		condition := meta.FindStatusCondition(conditions, kind)
		switch {
		case condition == nil || condition.Status != metav1.ConditionFalse, isPast(condition),
			condition.Reason == httpv1alpha1.ReasonNotAccepted: // condition Accepted has the reason
			continue
		}
		found = append(found, Finding{
			Code: HTTPScaledObjectRefused, Severity: Error, Object: name, Field: fmt.Sprintf("status.conditions[%s]", kind),
			Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
			Remedy:  "see docs/reference/errors.md for each message; until it is fixed, requests are routed as before",
		})
	}
	found = append(found, conditional(cluster, object, conditions, isPast)...)
	isOld := cluster.Now.Sub(object.CreationTimestamp.Time) > patience
	isServed := cluster.Interceptor != nil && cluster.Interceptor.Status.ReadyReplicas > 0
	if isServed && isOld && meta.FindStatusCondition(conditions, httpv1alpha1.ConditionAccepted) == nil {
		found = append(found, Finding{
			Code: HTTPScaledObjectUnreported, Severity: Error, Object: name, Field: "status.conditions",
			Message: "no interceptor has reported a status for a minute: it does not watch the namespace, or cannot write the status",
			Remedy:  fmt.Sprintf("check flag --namespaces and the log of Deployment %s/%s", cluster.Interceptor.Namespace, cluster.Interceptor.Name),
		})
	}
	return found
}

// proxyEndpoints reports an object that no proxy serves.
func proxied(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) []Finding {
	if !cluster.Knows(facts.Services) || !cluster.Knows(facts.EndpointSlices) {
		return nil
	}
	fleet := cluster.Fleet(object)
	if cluster.ReadyOf(fleet, facts.ProxyService) > 0 {
		return nil
	}
	finding := Finding{
		Code: NoReadyProxy, Severity: Error, Object: named("Service", fleet, facts.ProxyService),
		Message: "no ready endpoint: no proxy serves HTTPScaledObject " + object.Name,
		Remedy:  fmt.Sprintf("see why the Pods are not Ready: kubectl -n %s get pods -l app=kedify-proxy. Envoy becomes Ready after it has connected to the interceptor", fleet),
	}
	if cluster.Service(fleet, facts.ProxyService) == nil {
		finding.Message = "does not exist: no proxy serves HTTPScaledObject " + object.Name
		finding.Remedy = unserved(cluster, object, fleet)
	}
	return []Finding{finding}
}

// proxyFix returns the fix for an object without proxies. If the agent is installed, it installs them.
func unserved(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, fleet string) string {
	switch {
	case installsProxies(cluster, object):
		return fmt.Sprintf("the agent should install it: see kubectl -n %s logs deployment/%s (docs/how-to/proxies.md)", cluster.Agent.Namespace, cluster.Agent.Name)
	case cluster.Agent != nil && isOn(cluster, "install-proxies"):
		return fmt.Sprintf("have the agent install proxies: kubectl -n %s annotate httpscaledobject %s %s=ingress,httproute (docs/how-to/proxies.md), "+
			"or run kubectl apply -n %s -k config/kedify-proxy", object.Namespace, object.Name, httpv1alpha1.AnnotationTrafficAutowire, fleet)
	default:
		return fmt.Sprintf("kubectl http-canary install --components proxy --proxy-namespace %s, or use the shared proxies in the interceptor's namespace (docs/explanation/fleets.md)", fleet)
	}
}
