package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// optionalConditions reports False conditions of an object that unencrypted requests do not depend on: certificate,
// proxies, autowiring, and those of conditionWarnings.
func optionalConditions(
	cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, conditions []metav1.Condition,
	isPast func(*metav1.Condition) bool,
) []Finding {
	var findings []Finding
	add := func(code Code, severity Severity, condition *metav1.Condition, fix string) {
		findings = append(findings, Finding{
			Code: code, Severity: severity, Object: objectName(facts.KindOf(object), object.Namespace, object.Name),
			Field:   fmt.Sprintf("status.conditions[%s]", condition.Type),
			Message: fmt.Sprintf("%s: %s", condition.Reason, condition.Message), Fix: fix,
		})
	}
	failing := func(kind string) *metav1.Condition {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition == nil || condition.Status == metav1.ConditionTrue || isPast(condition) {
			return nil
		}
		return condition
	}
	tls := failing(httpv1alpha1.ConditionTLSReady)
	// The interceptor reads a new Secret within seconds.
	if tls != nil && (tls.Status == metav1.ConditionFalse ||
		cluster.Now.Sub(tls.LastTransitionTime.Time) > gracePeriod) {
		add(CertificateNotReady, Error, tls, certificateFix(cluster, object, tls.Reason))
	}
	if proxy := failing(httpv1alpha1.ConditionProxyInstalled); proxy != nil {
		add(ProxyNotInstalled, Error, proxy,
			"fix the problem described above; the agent retries automatically (docs/how-to/proxies.md)")
	}
	// The other reasons are intended by a user, or transient.
	switch wired := failing(httpv1alpha1.ConditionAutowired); {
	case wired == nil:
	case wired.Reason == httpv1alpha1.ReasonWriteRejected:
		add(NotWired, Warning, wired,
			"grant the agent Role kedify-http-agent-grants of config/agent/rbac.yaml, or create the ReferenceGrant "+
				"that the message names (docs/how-to/autowire.md)")
	case slices.Contains([]string{httpv1alpha1.ReasonBackendRevertedByOther, httpv1alpha1.ReasonInvalidRestoreRecord}, wired.Reason):
		add(NotWired, Warning, wired,
			"stop the other tool from writing the backends of the object, or set trafficAutowire: \"false\" "+
				"(docs/how-to/autowire.md)")
	}
	for _, warning := range conditionWarnings() {
		if condition := failing(warning.condition); condition != nil {
			add(warning.code, Warning, condition, warning.fix)
		}
	}
	return findings
}

// conditionWarning is the finding for a condition that is False.
type conditionWarning struct {
	condition string
	code      Code
	fix       string
}

// conditionWarnings returns the findings for conditions without which an object is served.
func conditionWarnings() []conditionWarning {
	return []conditionWarning{
		{
			httpv1alpha1.ConditionHostsUncontested, HostClaimedByOther,
			"remove the host from the object that the message names. If both may have it, list the namespace in " +
				"annotation " + httpv1alpha1.AnnotationAllowedNamespaces + " (docs/explanation/fleets.md)",
		},
		{
			httpv1alpha1.ConditionExternalSourcesLimited, AnyAddressAccepted,
			"list only the addresses of your proxies in annotation " + httpv1alpha1.AnnotationExternalProxySources +
				" (docs/explanation/demand.md)",
		},
		{
			httpv1alpha1.ConditionWaitingPageAccepted, WaitingPageNotAccepted,
			"correct the ConfigMap that the message names; until then the default page is shown " +
				"(docs/how-to/scale-from-zero.md)",
		},
		{
			httpv1beta1.ConditionFieldsSupported, FieldsNotSupported,
			"change the fields of the InterceptorRoute that the message names (docs/reference/interceptorroute.md)",
		},
		{
			httpv1alpha1.ConditionScalingFieldsApplied, ScalingFieldsNotApplied,
			"set the fields of the ScaledObject that the message names, and remove those of the HTTPScaledObject " +
				"(docs/reference/configuration.md)",
		},
		{
			httpv1alpha1.ConditionEnvoySettingsAccepted, EnvoySettingsNotAccepted,
			"correct the ConfigMap that the message names; until then the previous settings stay active " +
				"(docs/how-to/envoy-settings.md)",
		},
	}
}

// certificateFix returns the fix for a certificate that is not active.
func certificateFix(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject, reason string) string {
	secret := object.Annotations[httpv1alpha1.AnnotationTLSSecretName]
	switch reason {
	case httpv1alpha1.ReasonSecretNotFound:
		return fmt.Sprintf("kubectl -n %s create secret tls %s --cert=tls.crt --key=tls.key, or correct "+
			"tlsSecretName (docs/how-to/tls.md)", object.Namespace, secret)
	case httpv1alpha1.ReasonSecretUnreadable, httpv1alpha1.ReasonSecretPending:
		reader := httpv1alpha1.DefaultInterceptorNamespace + ":kedify-http-interceptor"
		if cluster.Interceptor != nil {
			reader = account(cluster.Interceptor).Namespace + ":" + account(cluster.Interceptor).Name
		}
		return fmt.Sprintf("kubectl create rolebinding kedify-http-interceptor-tls --namespace=%s "+
			"--clusterrole=kedify-http-interceptor-tls --serviceaccount=%s "+
			"(docs/how-to/tls.md)", object.Namespace, reader)
	case httpv1alpha1.ReasonCertificateConflict:
		return "reference the same Secret in both objects, or remove the host from one of them"
	case httpv1alpha1.ReasonHostNotCovered:
		return fmt.Sprintf("issue the certificate in Secret %s/%s for that host as well", object.Namespace, secret)
	default:
		return "correct the fields that the message names (docs/how-to/tls.md); the last valid certificate stays active"
	}
}
