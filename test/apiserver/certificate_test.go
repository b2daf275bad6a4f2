package apiserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// transportSecret is the Secret with the certificate of the interceptor for proxies.
const transportSecret = "kedify-http-interceptor-tls"

// useCertificate runs an interceptor with a certificate for proxies until it has loaded it.
func useCertificate(t *testing.T) {
	t.Helper()
	secret, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: transportSecret}, Type: corev1.SecretTypeTLS,
		Data: kit.NewServerCertificate(t, transport.Name("keda")),
	})
	if err != nil {
		t.Fatal(err)
	}
	shared.apply(t, "keda", string(secret))
	running := shared.startInterceptor(t, "interceptor-certificate")
	await.True(t, "the interceptor has the certificate, and watches it", func() bool {
		log, err := running.Log()
		return err == nil && strings.Contains(string(log), "certificate of the interceptor loaded") &&
			slices.Contains(usedPermissions(t, interceptorAccount), "watch secrets/"+transportSecret+" in keda")
	})
	running.Stop(t)
}
