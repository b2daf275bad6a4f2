package proxies_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// TestAutoscaler has the ScaledObject that scales the proxies by CPU usage, and by connections.
func TestAutoscaler(t *testing.T) {
	w := newFixture()
	w.Settings = proxies.Settings{Replicas: 2, MaxReplicas: 8, ScalerAddress: "scaler.keda:9090"}
	w.Annotations = map[string]string{
		httpv1alpha1.AnnotationProxyResources:         "{limits: {cpu: 500m}}",
		httpv1alpha1.AnnotationProxyTargetConnections: "1000",
	}
	w.step(t)
	w.Autoscaler.SetAnnotations(nil)
	w.Autoscaler.SetUID("")
	w.Autoscaler.SetResourceVersion("")
	got, err := yaml.Marshal(w.Autoscaler.Object)
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  labels:
    app: kedify-proxy
    app.kubernetes.io/managed-by: kedify-http-agent
  name: kedify-proxy
  namespace: team
spec:
  advanced:
    restoreToOriginalReplicaCount: true
  maxReplicaCount: 8
  minReplicaCount: 2
  scaleTargetRef:
    name: kedify-proxy
  triggers:
  - metadata:
      value: 375m
    metricType: AverageValue
    type: cpu
  - metadata:
      proxyConnections: "1000"
      scalerAddress: scaler.keda:9090
    metricType: AverageValue
    type: external
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
