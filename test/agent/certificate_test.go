package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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

// TestCertificateOfTheInterceptor has the certificate that the agent creates, which the interceptor accepts, and proxies
// that trust it, also after the Secret is deleted. It changes all namespaces, so it does not run in parallel.
func TestCertificateOfTheInterceptor(t *testing.T) {
	team := namespace(t, "certificate")
	apply(t, team, shop(simple))
	awaitParts(t, team, len(proxyParts))
	var first, second corev1.Secret
	get(t, interceptorSecret, &first)
	certificates := &transport.Certificates{Name: transport.Name("keda")}
	if ca, err := certificates.Set(first.Data); err != nil || ca != trustedCA(t, team) {
		t.Errorf("the interceptor reads %v and the CA %s, proxies trust %s", err, ca, trustedCA(t, team))
	}
	deployment := awaitProxy(t, team, "are there", isThere)
	remove(t, interceptorSecret)
	await.True(t, "another certificate", func() bool { return get(t, interceptorSecret, &second) })
	await.True(t, "proxies trust it", func() bool { return strings.Contains(trustedCA(t, team), string(second.Data["ca.crt"])) })
	if string(second.Data["ca.crt"]) == string(first.Data["ca.crt"]) {
		t.Error("the new certificate has the old CA")
	}
	if now := awaitProxy(t, team, "are still there", isThere); now.Generation != deployment.Generation {
		t.Error("the Deployment changed with the CA")
	}
}

// isThere holds for any Deployment.
func isThere(*appsv1.Deployment) bool { return true }
