package agent_test

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// interceptorSecret is the path of the Secret with the interceptor's certificate.
const interceptorSecret = "/api/v1/namespaces/keda/secrets/kedify-http-interceptor-tls"

// trustedCA returns the CAs in the ConfigMap of the proxies of a namespace.
func trustedCA(t *testing.T, namespace string) string {
	t.Helper()
	var configMap corev1.ConfigMap
	if !get(t, part("ConfigMap", namespace), &configMap) {
		return ""
	}
	var file struct {
		Resources []struct {
			Context struct {
				CA struct {
					Text string `json:"inline_string"`
				} `json:"trusted_ca"`
			} `json:"validation_context"`
		} `json:"resources"`
	}
	if err := json.Unmarshal([]byte(configMap.Data["interceptor-ca.json"]), &file); err != nil || len(file.Resources) != 1 {
		t.Fatalf("interceptor-ca.json: %v\n%v", err, configMap.Data)
	}
	return file.Resources[0].Context.CA.Text
}

// TestCertificateOfTheInterceptor starts the agent. It creates a certificate, which the interceptor accepts, and proxies
// that trust it, also after the Secret is deleted. It publishes the CA for the scaler, and makes the fleet strict. The
// admission policies accept all of this.
//
//nolint:paralleltest // it replaces the shared cluster
func TestCertificateOfTheInterceptor(t *testing.T) {
	definition, err := os.ReadFile(manifests + "crd/http.keda.sh_httpscaledobjects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder := clusterOfItsOwn(t)
	apply(t, "", string(definition))
	applyFiles(t, "", manifests+"agent/admission.yaml")
	agent, _, err := shared.start(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	team := namespace(t, "team")
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	var first, second corev1.Secret
	get(t, interceptorSecret, &first)
	certificates := &transport.Certificates{Name: transport.Name("keda")}
	if ca, err := certificates.Set(first.Data); err != nil || ca != trustedCA(t, team) {
		t.Errorf("the interceptor reads %v and the CA %s, proxies trust %s", err, ca, trustedCA(t, team))
	}
	pair, err := tls.X509KeyPair(first.Data["tls.crt"], first.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname(transport.Name("keda")); err != nil {
		t.Errorf("proxies and other interceptors reject the certificate: %v", err)
	}
	deployment := awaitProxy(t, team, "have a token", func(found *appsv1.Deployment) bool {
		volumes := found.Spec.Template.Spec.Volumes
		return len(volumes) == 2 && volumes[1].Projected != nil &&
			volumes[1].Projected.Sources[0].ServiceAccountToken.Audience == identity.Audience
	})
	await.True(t, "the fleet is strict", func() bool {
		var service corev1.Service
		return get(t, part("Service", team), &service) &&
			service.Annotations[httpv1alpha1.AnnotationProxyAuthentication] == httpv1alpha1.ProxyAuthenticationStrict
	})
	remove(t, interceptorSecret)
	await.True(t, "another certificate", func() bool { return get(t, interceptorSecret, &second) })
	await.True(t, "proxies trust it", func() bool {
		return strings.Contains(trustedCA(t, team), string(second.Data["ca.crt"]))
	})
	await.True(t, "the scaler trusts it", func() bool {
		var published corev1.ConfigMap
		return get(t, "/api/v1/namespaces/keda/configmaps/"+httpv1alpha1.InterceptorCA, &published) &&
			published.Data[httpv1alpha1.InterceptorCAKey] == string(second.Data["ca.crt"])
	})
	if string(second.Data["ca.crt"]) == string(first.Data["ca.crt"]) {
		t.Error("the new certificate has the old CA")
	}
	now := awaitProxy(t, team, "are still there", func(*appsv1.Deployment) bool { return true })
	if now.Generation != deployment.Generation {
		t.Error("the Deployment changed with the CA")
	}
}

// TestProxiesWithoutTLS: with an empty name of the Secret, the agent creates no certificate, and proxies without a CA and
// a token. It does not make their fleet strict.
//
//nolint:paralleltest // it replaces the shared cluster
func TestProxiesWithoutTLS(t *testing.T) {
	definition, err := os.ReadFile(manifests + "crd/http.keda.sh_httpscaledobjects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder := clusterOfItsOwn(t)
	apply(t, "", string(definition))
	agent, _, err := shared.start(t.Context(), folder, "--interceptor-tls-secret=")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })
	team := namespace(t, "without-tls")
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	if get(t, interceptorSecret, new(corev1.Secret)) {
		t.Error("the agent has created a certificate of the interceptor")
	}
	var configMap corev1.ConfigMap
	get(t, part("ConfigMap", team), &configMap)
	if len(configMap.Data) != 1 || strings.Contains(configMap.Data["envoy.yaml"], "tls") {
		t.Errorf("the ConfigMap has TLS: %v", configMap.Data)
	}
	proxy := awaitProxy(t, team, "are there", func(*appsv1.Deployment) bool { return true })
	if volumes := proxy.Spec.Template.Spec.Volumes; len(volumes) != 1 {
		t.Errorf("the proxies have the volumes %v", volumes)
	}
	var service corev1.Service
	if get(t, part("Service", team), &service); service.Annotations[httpv1alpha1.AnnotationProxyAuthentication] != "" {
		t.Errorf("the Service has the annotations %v", service.Annotations)
	}
}
