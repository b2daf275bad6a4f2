package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestWaitingPage changes a ConfigMap from missing to invalid to valid, with the built interceptor as its
// ServiceAccount. Each time the condition has the reason, without a restart.
func TestWaitingPage(t *testing.T) {
	const namespace = "pages"
	shared.newNamespace(t, namespace)
	shared.apply(t, namespace, `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: shop
  annotations:
    http.kedify.io/cold-start-waiting-page-enabled: "true"
    http.kedify.io/cold-start-waiting-page-config-map-ref: page
spec: {hosts: [shop.test], scaleTargetRef: {service: shop, port: 80}}
`)
	shared.startInterceptor(t, "interceptor-of-pages")
	expect := func(reason, says string) {
		t.Helper()
		var is *metav1.Condition
		await.True(t, "the condition is "+reason, func() bool {
			is = meta.FindStatusCondition(shared.object(t, namespace, "shop").Status.Conditions,
				httpv1alpha1.ConditionWaitingPageAccepted)
			return is != nil && is.Reason == reason
		})
		if !strings.Contains(is.Message, says) {
			t.Errorf("%q, want %q", is.Message, says)
		}
	}
	page := func(labels, data string) {
		t.Helper()
		shared.apply(t, namespace, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, labels: "+
			"%s}\ndata: %s\n", labels, data))
	}
	const label = `{http.keda.sh/response-body: "true"}`
	const none = `annotation http.kedify.io/cold-start-waiting-page-config-map-ref: ConfigMap "page" with label ` +
		`http.keda.sh/response-body: "true" not found in namespace "pages": create it, or add the label. Until then the interceptor's own page is shown.`
	expect(httpv1alpha1.ReasonWaitingPageNotFound, none)
	page(label, `{index.html: "<h1>Soon</h1>"}`)
	expect(httpv1alpha1.ReasonInvalidWaitingPage,
		`ConfigMap "page" in namespace "pages": key "body": missing or empty: set it to the HTML page.`)
	page(label, `{body: "<h1>Soon</h1>"}`)
	expect(httpv1alpha1.ReasonWaitingPageAccepted, "The waiting page is valid.")
	page(`{}`, `{body: "<h1>Soon</h1>"}`)
	expect(httpv1alpha1.ReasonWaitingPageNotFound, none)
}
