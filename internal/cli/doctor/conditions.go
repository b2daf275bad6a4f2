package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// conditional tells what conditions say against an object that its requests in clear text do not depend on: its certificate, its proxies, its Ingresses.
func conditional(
	cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, conditions []metav1.Condition, isPast func(*metav1.Condition) bool,
) []Finding {
	var found []Finding
	add := func(code Code, severity Severity, condition *metav1.Condition, remedy string) {
		found = append(found, Finding{
			Code: code, Severity: severity, Object: named(httpv1alpha1.Kind, object.Namespace, object.Name),
			Field:   fmt.Sprintf("status.conditions[%s]", condition.Type),
			Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message), Remedy: remedy,
		})
	}
	of := func(kind string) *metav1.Condition {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition == nil || condition.Status == metav1.ConditionTrue || isPast(condition) {
			return nil
		}
		return condition
	}
	tls := of(httpv1alpha1.ConditionTLSReady)
	// A Secret is read within moments.
	if tls != nil && (tls.Status == metav1.ConditionFalse || cluster.Now.Sub(tls.LastTransitionTime.Time) > patience) {
		add(CertificateNotReady, Error, tls, certificate(cluster, object, tls.Reason))
	}
	if proxy := of(httpv1alpha1.ConditionProxyInstalled); proxy != nil {
		add(ProxyNotInstalled, Error, proxy, "do what it says: the agent tries again by itself (docs/how-to/proxies.md)")
	}
	// The other reasons are arrangements of somebody's, or pass.
	switch wired := of(httpv1alpha1.ConditionAutowired); {
	case wired == nil:
	case wired.Reason == httpv1alpha1.ReasonRefused:
		add(NotWired, Warning, wired, "give the agent Role kedify-http-agent-grants of config/agent/rbac.yaml, or make the ReferenceGrant that it names (docs/how-to/autowire.md)")
	case slices.Contains([]string{httpv1alpha1.ReasonRestored, httpv1alpha1.ReasonUndoUnreadable}, wired.Reason):
		add(NotWired, Warning, wired, "have whoever writes the Ingress leave its backends to the agent, or say trafficAutowire: \"false\" (docs/how-to/autowire.md)")
	}
	return found
}

// certificate is what to do about a certificate that is not in force.
func certificate(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, reason string) string {
	secret := object.Annotations[httpv1alpha1.AnnotationTLSSecretName]
	switch reason {
	case httpv1alpha1.ReasonSecretNotFound:
		return fmt.Sprintf("kubectl -n %s create secret tls %s --cert=tls.crt --key=tls.key, or correct tlsSecretName (docs/how-to/tls.md)", object.Namespace, secret)
	case httpv1alpha1.ReasonSecretUnreadable, httpv1alpha1.ReasonSecretPending:
		reader := httpv1alpha1.DefaultInterceptorNamespace + ":kedify-http-interceptor"
		if cluster.Interceptor != nil {
			reader = account(cluster.Interceptor).Namespace + ":" + account(cluster.Interceptor).Name
		}
		return fmt.Sprintf("kubectl create rolebinding kedify-http-interceptor-tls --namespace=%s --clusterrole=kedify-http-interceptor-tls --serviceaccount=%s "+
			"(docs/how-to/tls.md)", object.Namespace, reader)
	case httpv1alpha1.ReasonHostTaken:
		return "name the same Secret in both objects, or take the host out of one"
	case httpv1alpha1.ReasonHostNotCovered:
		return fmt.Sprintf("have Secret %s/%s issued for that host, too", object.Namespace, secret)
	default:
		return "correct what it names (docs/how-to/tls.md); a certificate that was good before stays in force"
	}
}
