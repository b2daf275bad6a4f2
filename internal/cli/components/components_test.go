package components_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/components"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// deployment returns a Deployment with one ready replica of two.
func deployment(namespace, name, image string) *appsv1.Deployment {
	replicas := int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: image}},
		}}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	controller := deployment("argo-rollouts", "argo-rollouts", "quay.io/argoproj/argo-rollouts:v1.10.1")
	controller.Spec.Template.Spec.InitContainers = []corev1.Container{{Image: "localhost:5000/plugins:1.2.3"}}
	scaler := deployment("keda", "scaler", "ghcr.io/kedify/argo-rollouts-plugin/scaler@sha256:0")
	scaler.Labels = map[string]string{facts.LabelVersion: "0.9.0"}
	cluster := &facts.Facts{
		Controller: controller, Scaler: scaler,
		Interceptor: deployment("keda", "interceptor", "ghcr.io:443/kedify/interceptor:1.2.3@sha256:0"),
		Proxies: map[string]*appsv1.Deployment{
			"web": deployment("web", "kedify-proxy", "envoyproxy/envoy:distroless-v1.40.0"),
			"api": deployment("api", "kedify-proxy", "localhost:5000/envoy"),
		},
		Plugins: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "argo-rollouts", Name: "argo-rollouts-config"},
			Data: map[string]string{facts.PluginsKey: `
- {name: kedify/http, location: "file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify"}
- {name: argoproj-labs/gatewayAPI, location: "https://example.com/download/v0.1.0/gatewayapi-plugin-linux-amd64"}
`},
		},
	}
	var out strings.Builder
	if err := components.Print(&out, output.Wide, true, components.Of(cluster)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"COMPONENT VERSION READY OBJECT IMAGE OR LOCATION",
		"interceptor 1.2.3 1/2 keda/interceptor ghcr.io:443/kedify/interceptor:1.2.3@sha256:0",
		"scaler 0.9.0 1/2 keda/scaler ghcr.io/kedify/argo-rollouts-plugin/scaler@sha256:0",
		"proxy - 1/2 api/kedify-proxy localhost:5000/envoy",
		"proxy distroless-v1.40.0 1/2 web/kedify-proxy envoyproxy/envoy:distroless-v1.40.0",
		"Argo Rollouts v1.10.1 1/2 argo-rollouts/argo-rollouts quay.io/argoproj/argo-rollouts:v1.10.1",
		"plugin kedify/http 1.2.3 - argo-rollouts/argo-rollouts-config file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify",
		"plugin argoproj-labs/gatewayAPI 0.1.0 - argo-rollouts/argo-rollouts-config https://example.com/download/v0.1.0/gatewayapi-plugin-linux-amd64",
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
