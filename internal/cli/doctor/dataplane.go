package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// gracePeriod is how long a transient state may last, e.g. a missing report on a new object, or a missing metric.
const gracePeriod = time.Minute

// dataPlane checks the components that apply the weights of Rollouts with HTTPRouter.
func dataPlane(cluster *facts.Facts) []Finding {
	if !cluster.AnyUses(facts.HTTPRouter) {
		return nil
	}
	findings, isThere := crd(cluster)
	if cluster.HasRead(facts.Deployments) {
		findings = append(findings, interceptor(cluster)...)
	}
	if !isThere || !cluster.HasRead(facts.HTTPScaledObjects) {
		return findings
	}
	seen := map[types.NamespacedName]bool{}
	for _, r := range rolloutsUsing(cluster, facts.HTTPRouter) {
		if r.ObjectError != nil {
			continue
		}
		objects := cluster.ObjectsOf(r)
		if len(objects) == 0 {
			findings = append(findings, objectNotFound(r))
			continue
		}
		for _, object := range objects {
			name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
			if !seen[name] {
				findings = append(findings, objectConditions(cluster, object)...)
				findings = append(findings, proxyEndpoints(cluster, object)...)
			}
			seen[name] = true
		}
	}
	return findings
}

// objectNotFound returns the finding about a Rollout whose object does not exist.
func objectNotFound(r *facts.Rollout) Finding {
	finding := Finding{
		Code: HTTPScaledObjectNotFound, Severity: Error, Object: objectName("Rollout", r.Namespace, r.Name),
		Field:   fmt.Sprintf("%s[%q].httpScaledObjectName", pluginsOf, facts.HTTPRouter),
		Message: fmt.Sprintf("HTTPScaledObject %q does not exist in namespace %q", r.Object, r.Namespace),
		Fix: "create it, or correct the name. If the agent is installed, create a ScaledObject of that " +
			"name with a kedify-http trigger instead",
	}
	if r.InterceptorRoute != "" {
		finding.Field = fmt.Sprintf("%s[%q].interceptorRoute", pluginsOf, facts.HTTPRouter)
		finding.Message = fmt.Sprintf("InterceptorRoute %q does not exist in namespace %q", r.InterceptorRoute, r.Namespace)
		finding.Fix = "create it, or correct the name"
	}
	return finding
}

// crd checks the CustomResourceDefinition of HTTPScaledObjects, and reports whether it exists.
func crd(cluster *facts.Facts) ([]Finding, bool) {
	if !cluster.HasRead(facts.CRDs) {
		return nil, true
	}
	const name = facts.HTTPScaledObjectsCRD
	const apply = "kubectl apply --server-side --force-conflicts -f config/crd"
	live, ok := cluster.CRDs[name]
	object := objectName("CustomResourceDefinition", "", name)
	switch {
	case !ok:
		return []Finding{{
			Code: CRDNotFound, Severity: Error, Object: object,
			Message: "not installed: HTTPScaledObjects cannot be created", Fix: apply,
		}}, false
	case !slices.Contains(live.Served, httpv1alpha1.Version):
		return []Finding{{
			Code: CRDNotFound, Severity: Error, Object: object, Field: "spec.versions",
			Message: fmt.Sprintf("serves versions %v, but the interceptor requires %s", live.Served,
				httpv1alpha1.Version), Fix: apply,
		}}, false
	case !slices.Contains(live.StatusFields, "dataPlane"):
		owner := cmp.Or(live.Annotations["meta.helm.sh/release-name"], live.Labels["app.kubernetes.io/managed-by"],
			live.Labels["app.kubernetes.io/name"], "unknown")
		return []Finding{{
			Code: CRDOwnedByOther, Severity: Warning, Object: object, Field: "spec.versions",
			Message: fmt.Sprintf("installed by another owner (%s) and has no field status.dataPlane: the "+
				"interceptor reports in annotation %s instead, which requires an additional permission",
				owner, httpv1alpha1.AnnotationStatus),
			Fix: apply + ", which accepts the same objects (docs/reference/status.md)",
		}}, true
	}
	return nil, true
}

// otherProducts reports products that must not run next to components of this project, one Deployment of each.
func otherProducts(cluster *facts.Facts) []Finding {
	if cluster.Interceptor == nil && cluster.Scaler == nil && cluster.Agent == nil {
		return nil
	}
	return products(cluster)
}

// products reports each product that must not run next to components of this project.
func products(cluster *facts.Facts) []Finding {
	var findings []Finding
	seen := map[string]bool{}
	for _, other := range cluster.Others {
		product := facts.OtherProduct(other)
		if seen[product] {
			continue
		}
		seen[product] = true
		findings = append(findings, Finding{
			Code: OtherProductInstalled, Severity: Error, Object: objectName("Deployment", other.Namespace, other.Name),
			Message: fmt.Sprintf("belongs to %s, which changes the same HTTPScaledObjects as the components of this project",
				product),
			Fix: "remove one of them (docs/how-to/migrate.md)",
		})
	}
	return findings
}

// interceptor checks the Deployment of the interceptor.
func interceptor(cluster *facts.Facts) []Finding {
	if cluster.Interceptor == nil {
		return []Finding{{
			Code: InterceptorNotFound, Severity: Error, Object: "Deployment keda/keda-add-ons-http-interceptor",
			Message: "no Deployment has the labels app.kubernetes.io/part-of=kedify-http and " +
				"app.kubernetes.io/component=interceptor: proxies receive no weights",
			Fix: "kubectl apply --server-side --force-conflicts -k config/interceptor",
		}}
	}
	if ready, ok := readiness(cluster.Interceptor); !ok {
		return []Finding{{
			Code: InterceptorNotReady, Severity: Error,
			Object:  objectName("Deployment", cluster.Interceptor.Namespace, cluster.Interceptor.Name),
			Field:   "status.readyReplicas",
			Message: ready + ": proxies keep their configuration and receive no new weights",
			Fix: fmt.Sprintf("see kubectl -n %s describe pods -l app.kubernetes.io/component=interceptor, and the "+
				"log of the Pods", cluster.Interceptor.Namespace),
		}}
	}
	return nil
}

// objectConditions reports the conditions of an object that the interceptor or the agent has set to False.
func objectConditions(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) []Finding {
	var findings []Finding
	name := objectName(facts.KindOf(object), object.Namespace, object.Name)
	conditions := httpv1alpha1.StatusOf(object).Conditions
	// A condition without observedGeneration is about the current generation.
	isPast := func(c *metav1.Condition) bool {
		return c.ObservedGeneration != 0 && c.ObservedGeneration < object.Generation
	}
	for _, kind := range []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionReady, httpv1alpha1.ConditionTriggerAccepted,
		httpv1alpha1.ConditionScalingMetricAccepted,
	} {
		condition := meta.FindStatusCondition(conditions, kind)
		switch {
		case condition == nil || condition.Status != metav1.ConditionFalse, isPast(condition),
			condition.Reason == httpv1alpha1.ReasonNotAccepted: // condition Accepted has the reason
			continue
		}
		findings = append(findings, Finding{
			Code: HTTPScaledObjectNotAccepted, Severity: Error, Object: name,
			Field:   fmt.Sprintf("status.conditions[%s]", kind),
			Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message),
			Fix:     "see docs/reference/errors.md for each message; until it is fixed, requests are routed as before",
		})
	}
	findings = append(findings, optionalConditions(cluster, object, conditions, isPast)...)
	isOld := cluster.Now.Sub(object.CreationTimestamp.Time) > gracePeriod
	isServed := cluster.Interceptor != nil && cluster.Interceptor.Status.ReadyReplicas > 0
	if isServed && isOld && meta.FindStatusCondition(conditions, httpv1alpha1.ConditionAccepted) == nil {
		findings = append(findings, Finding{
			Code: HTTPScaledObjectUnreported, Severity: Error, Object: name, Field: "status.conditions",
			Message: "no interceptor has reported a status for a minute: it does not watch the namespace, or cannot " +
				"write the status",
			Fix: fmt.Sprintf("check flag --namespaces and the log of Deployment %s/%s",
				cluster.Interceptor.Namespace, cluster.Interceptor.Name),
		})
	}
	return findings
}

// proxyEndpoints reports an object that no proxy serves.
func proxyEndpoints(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) []Finding {
	if !cluster.HasRead(facts.Services) || !cluster.HasRead(facts.EndpointSlices) {
		return nil
	}
	fleet := cluster.Fleet(object)
	if cluster.ReadyOf(fleet, facts.ProxyService) > 0 {
		return nil
	}
	finding := Finding{
		Code: NoReadyProxy, Severity: Error, Object: objectName("Service", fleet, facts.ProxyService),
		Message: "no ready endpoint: no proxy serves " + facts.KindOf(object) + " " + object.Name,
		Fix: fmt.Sprintf("see why the Pods are not Ready: kubectl -n %s get pods -l app=kedify-proxy. Envoy "+
			"becomes Ready after it has connected to the interceptor", fleet),
	}
	if cluster.Service(fleet, facts.ProxyService) == nil {
		finding.Message = "does not exist: no proxy serves " + facts.KindOf(object) + " " + object.Name
		finding.Fix = proxyFix(cluster, object, fleet)
	} else if rejection := rejectedPods(cluster.Proxies[fleet]); rejection != "" {
		finding.Message += fmt.Sprintf(": the API server rejects the Pods of Deployment %s: %.300s", facts.ProxyService,
			rejection)
		finding.Fix = fmt.Sprintf("change the policy or quota that the message names. If it requires resources, set those "+
			"of the proxies: annotation %s of Namespace %s (docs/how-to/proxies.md)", httpv1alpha1.AnnotationProxyResources,
			fleet)
	}
	return []Finding{finding}
}

// rejectedPods returns why the API server rejects the Pods of a Deployment, such as a ResourceQuota; "" if it does not,
// or if the Deployment does not exist.
func rejectedPods(deployment *appsv1.Deployment) string {
	if deployment == nil {
		return ""
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return condition.Message
		}
	}
	return ""
}

// proxyFix returns the fix for an object without proxies. If the agent is installed, it installs them.
func proxyFix(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, fleet string) string {
	switch {
	case installsProxies(cluster, object):
		return fmt.Sprintf("the agent should install it: see kubectl -n %s logs deployment/%s (docs/how-to/proxies.md)",
			cluster.Agent.Namespace, cluster.Agent.Name)
	case cluster.Agent != nil && isEnabled(cluster, "install-proxies"):
		return fmt.Sprintf("have the agent install proxies: kubectl -n %s annotate httpscaledobject %s "+
			"%s=ingress,httproute (docs/how-to/proxies.md), "+
			"or run kubectl apply -n %s -k config/kedify-proxy",
			object.Namespace, object.Name, httpv1alpha1.AnnotationTrafficAutowire, fleet)
	default:
		return fmt.Sprintf("kubectl http-canary install --components proxy --proxy-namespace %s, or use the shared "+
			"proxies in the interceptor's namespace (docs/explanation/fleets.md)", fleet)
	}
}
