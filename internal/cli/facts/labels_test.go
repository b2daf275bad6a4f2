package facts_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// TestComponent: Deployments of other products are no components of this project, although labels of theirs are equal.
func TestComponent(t *testing.T) {
	t.Parallel()
	const name, component, partOf = "app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of"
	for _, test := range []struct {
		name    string
		labels  map[string]string
		account string
		want    string
	}{
		{"ours", map[string]string{name: "http-add-on", component: "scaler", partOf: "kedify-http"}, "custom", "scaler"},
		{
			"ours of an earlier version",
			map[string]string{name: "http-add-on", component: "agent"},
			"kedify-http-agent",
			"agent",
		},
		{
			"the chart of the KEDA HTTP add-on",
			map[string]string{name: "http-add-on", component: "interceptor", partOf: "keda-add-ons-http"},
			"keda-add-ons-http-interceptor",
			"",
		},
		{
			"without a product",
			map[string]string{name: "http-add-on", component: "interceptor"},
			"keda-add-ons-http-interceptor",
			"",
		},
		{
			"the account of another component",
			map[string]string{name: "http-add-on", component: "interceptor"},
			"kedify-http-scaler",
			"",
		},
		{
			"another product with our account",
			map[string]string{name: "http-add-on", component: "interceptor", partOf: "keda-add-ons-http"},
			"kedify-http-interceptor",
			"",
		},
		{"another name", map[string]string{name: "http", component: "add-on", partOf: "kedify-http"}, "", ""},
		{"no labels", nil, "kedify-http-interceptor", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := facts.Component(deploymentOf(test.labels, test.account)); got != test.want {
				t.Errorf("component %q, want %q", got, test.want)
			}
		})
	}
}

// deploymentOf returns a Deployment with these labels whose Pods have this ServiceAccount.
func deploymentOf(labels map[string]string, account string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	deployment.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account}
	return deployment
}

// TestOtherProduct: the components of products that change the same objects are recognized, and no component of this
// project, of KEDA or of Argo Rollouts is one of them.
func TestOtherProduct(t *testing.T) {
	t.Parallel()
	const name, component, partOf = "app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of"
	for _, test := range []struct {
		name    string
		labels  map[string]string
		account string
		want    string
	}{
		{
			"the manifests of the KEDA HTTP add-on",
			map[string]string{name: "http-add-on", component: "operator", partOf: "keda"},
			"keda-add-ons-http-operator", facts.ProductAddOn,
		},
		{
			"the chart of the KEDA HTTP add-on, with an account of the user",
			map[string]string{name: "http-add-on", component: "interceptor", partOf: "keda-add-ons-http"},
			"custom", facts.ProductAddOn,
		},
		{
			"the add-on without a product",
			map[string]string{name: "http-add-on", component: "interceptor"},
			"keda-add-ons-http-interceptor", facts.ProductAddOn,
		},
		{
			"Kedify's agent",
			map[string]string{name: "kedify-agent", component: "manager"},
			"kedify-agent", facts.ProductKedify,
		},
		{"ours", map[string]string{name: "http-add-on", component: "agent", partOf: "kedify-http"}, "kedify-http-agent", ""},
		{
			"ours with the account of the add-on",
			map[string]string{name: "http-add-on", component: "scaler", partOf: "kedify-http"},
			"keda-add-ons-http-scaler", "",
		},
		{
			"ours of an earlier version, with an account of the user",
			map[string]string{name: "http-add-on", component: "scaler"},
			"custom", "",
		},
		{"KEDA", map[string]string{name: "keda-operator", partOf: "keda-operator"}, "keda-operator", ""},
		{"no labels", nil, "keda-add-ons-http-operator", ""},
	} {
		if got := facts.OtherProduct(deploymentOf(test.labels, test.account)); got != test.want {
			t.Errorf("%s: product %q, want %q", test.name, got, test.want)
		}
	}
}
