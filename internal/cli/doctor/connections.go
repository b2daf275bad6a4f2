package doctor

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// connections checks the connections of the scaler and of the proxies to the interceptor.
func connections(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Deployments) || !isSecure(cluster.Interceptor) {
		return nil
	}
	var findings []Finding
	if cluster.HasRead(facts.CA) && cluster.CA == nil && len(cluster.ScaledByRequests()) > 0 {
		findings = append(findings, Finding{
			Code: InterceptorCertificateMissing, Severity: Error,
			Object: objectName("ConfigMap", cluster.Interceptor.Namespace, httpv1alpha1.InterceptorCA),
			Message: "does not exist: the scaler cannot connect to the interceptor, so demand is unknown and replicas do " +
				"not change",
			Fix: fmt.Sprintf("the agent creates it with the certificate: install it, and see its log. Or turn TLS off "+
				"(docs/how-to/interceptor-tls.md): kubectl -n %s set env deployment/%s %s=", cluster.Interceptor.Namespace,
				cluster.Interceptor.Name, secretVariable),
		})
	}
	for i := range cluster.HTTPScaledObjects {
		object := &cluster.HTTPScaledObjects[i]
		fleet := cluster.Fleet(object)
		findings = append(findings, authentication(fleet, cluster.Service(fleet, facts.ProxyService))...)
		proxies := cluster.Proxies[fleet]
		if object.Annotations[httpv1alpha1.AnnotationTLSSecretName] == "" || proxies == nil || hasToken(proxies) ||
			cluster.ReadyOf(fleet, facts.ProxyService) == 0 {
			continue
		}
		findings = append(findings, Finding{
			Code: ProxyWithoutToken, Severity: Warning, Object: objectName("Deployment", fleet, facts.ProxyService),
			Message: "connects to the interceptor without TLS and a token, so it receives no private keys and rejects HTTPS",
			Fix:     "delete these proxies, so that the agent installs its own (docs/how-to/interceptor-tls.md)",
		})
	}
	return findings
}

// authentication reports an invalid mode of a fleet. service is its Service, nil if it does not exist.
func authentication(fleet string, service *corev1.Service) []Finding {
	if service == nil {
		return nil
	}
	const name = httpv1alpha1.AnnotationProxyAuthentication
	modes := []string{httpv1alpha1.ProxyAuthenticationPermissive, httpv1alpha1.ProxyAuthenticationStrict}
	mode, isSet := service.Annotations[name]
	if !isSet || slices.Contains(modes, mode) {
		return nil
	}
	return []Finding{{
		Code: InvalidProxyAuthentication, Severity: Warning, Object: objectName("Service", fleet, facts.ProxyService),
		Field:   "metadata.annotations[" + name + "]",
		Message: fmt.Sprintf("%.80q is not a mode: the interceptor serves only proxies with a token", mode),
		Fix:     fmt.Sprintf("kubectl -n %s annotate --overwrite service %s %s=%s", fleet, facts.ProxyService, name, modes[0]),
	}}
}

// secretVariable is the environment variable of the interceptor that turns TLS off if it is empty.
const secretVariable = "KEDIFY_INTERCEPTOR_INTERCEPTOR_TLS_SECRET"

// isSecure reports whether the interceptor uses TLS.
func isSecure(interceptor *appsv1.Deployment) bool {
	return interceptor != nil && !slices.ContainsFunc(interceptor.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, "--interceptor-tls-secret=") || slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool {
			return v.Name == secretVariable && v.Value == "" && v.ValueFrom == nil
		})
	})
}

// hasToken reports whether proxies have a token for the interceptor.
func hasToken(proxies *appsv1.Deployment) bool {
	return slices.ContainsFunc(proxies.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Projected != nil })
}
