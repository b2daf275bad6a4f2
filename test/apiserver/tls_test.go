package apiserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestInterceptorReadsOnlyNamedSecrets checks condition TLSReady of two objects in two namespaces: without a
// permission, with the permission from the command in the condition, and with a permission for one name. The
// interceptor runs as its ServiceAccount and requests only these Secrets.
func TestInterceptorReadsOnlyNamedSecrets(t *testing.T) {
	t.Parallel()
	const wide, narrow = "tls-wide", "tls-narrow"
	for _, namespace := range []string{wide, narrow} {
		shared.newNamespace(t, namespace)
		shared.apply(t, namespace, `{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{port: 80}]}}`,
			secretText(t, "other-tls", 7, "x.test"),
			fmt.Sprintf(`{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, annotations: {%s: shop-tls}}, `+
				`spec: {hosts: [%s.test], scaleTargetRef: {service: shop, port: 80}}}`, httpv1alpha1.AnnotationTLSSecretName, namespace))
	}
	running := shared.startInterceptor(t, "interceptor-tls")
	denied := awaitTLS(t, wide, httpv1alpha1.ReasonSecretUnreadable)
	awaitTLS(t, narrow, httpv1alpha1.ReasonSecretUnreadable)
	if accepted := meta.IsStatusConditionTrue(shared.object(t, wide, "shop").Status.Conditions,
		httpv1alpha1.ConditionAccepted); !accepted {
		t.Error("the object is not accepted without the permission for TLS")
	}

	page, err := os.ReadFile("../../docs/how-to/tls.md")
	if err != nil {
		t.Fatal(err)
	}
	shared.apply(t, wide, commandIn(t, string(page), denied, wide))
	_, role, _ := strings.Cut(string(page), "```yaml role\n")
	role, _, _ = strings.Cut(role, "```")
	shared.apply(t, narrow, role)
	for _, namespace := range []string{wide, narrow} {
		awaitTLS(t, namespace, httpv1alpha1.ReasonSecretNotFound)
		shared.apply(t, namespace, secretText(t, "shop-tls", 1, "elsewhere.test"))
		awaitTLS(t, namespace, httpv1alpha1.ReasonHostNotCovered)
		shared.apply(t, namespace, secretText(t, "shop-tls", 2, namespace+".test"))
		if is := awaitTLS(t, namespace, httpv1alpha1.ReasonTLSReady); is.Status != metav1.ConditionTrue {
			t.Errorf("condition %+v", is)
		}
	}
	if err := shared.admin.Delete().AbsPath("/api/v1/namespaces/" + wide +
		"/secrets/shop-tls").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	awaitTLS(t, wide, httpv1alpha1.ReasonSecretNotFound)
	running.Stop(t)

	asked := map[string]bool{}
	for _, event := range shared.requests(t, interceptorAccount) {
		if ref := event.ObjectRef; ref.Resource == "secrets" && ref.Name != transportSecret {
			asked[event.Verb+" "+ref.Namespace+"/"+ref.Name] = true
		}
	}
	want := map[string]bool{}
	for _, namespace := range []string{wide, narrow} {
		want["list "+namespace+"/shop-tls"], want["watch "+namespace+"/shop-tls"] = true, true
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests of the interceptor for Secrets (-want +audit log):\n%s", diff)
	}
}

// awaitTLS waits until condition TLSReady has a reason.
func awaitTLS(t *testing.T, namespace, reason string) metav1.Condition {
	t.Helper()
	var is metav1.Condition
	await.True(t, namespace+" has reason "+reason, func() bool {
		found := meta.FindStatusCondition(shared.object(t, namespace, "shop").Status.Conditions,
			httpv1alpha1.ConditionTLSReady)
		if found != nil {
			is = *found
		}
		return found != nil && found.Reason == reason
	})
	return is
}

// secretText returns the manifest of a Secret.
func secretText(t *testing.T, name string, serial int64, host string) string {
	t.Helper()
	secret := kit.NewTLSSecret(t, "", name, serial, host)
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	text, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), string(corev1.SecretTypeTLS)) {
		t.Fatalf("Secret %s is of another type", name)
	}
	return string(text)
}

// commandIn returns the manifest that the command in a condition's message creates. The page has the same command.
func commandIn(t *testing.T, page string, denied metav1.Condition, namespace string) string {
	t.Helper()
	command := regexp.MustCompile("`kubectl create rolebinding (\\S+) --namespace=(\\S+) --clusterrole=(\\S+) " +
		"--serviceaccount=(\\S+):(\\S+)`").
		FindStringSubmatch(denied.Message)
	if command == nil || command[2] != namespace {
		t.Fatalf("there is no command for namespace %s in %q", namespace, denied.Message)
	}
	if said := strings.Replace(strings.Trim(command[0], "`"), namespace, "YOUR-NAMESPACE", 1); !strings.Contains(page,
		"\n"+said+"\n") {
		t.Errorf("docs/how-to/tls.md does not have the command %s", said)
	}
	return fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s}, `+
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}, subjects: [{kind: ServiceAccount, namespace: %s, name: %s}]}`,
		command[1], command[3], command[4], command[5])
}
