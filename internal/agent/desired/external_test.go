package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// external is a ScaledObject of an application behind Envoys of its owner, with a trigger's metadata.
func external(t *testing.T, metadata string) *apis.ScaledObject {
	t.Helper()
	return read[apis.ScaledObject](t, `
metadata: {name: shop, namespace: team, uid: uid-1}
spec:
  scaleTargetRef: {name: shop}
  minReplicaCount: 1
  triggers: [{type: kedify-envoy-http, metadata: `+metadata+`}]`)
}

// TestExternal: the object of external proxies is unrouted, before and after the conversion of its trigger.
func TestExternal(t *testing.T) {
	t.Parallel()
	scaled := external(t, `{externalProxyMetricKey: shop, externalProxySources: 10.0.0.0/8, targetValue: "7"}`)
	want := read[httpv1alpha1.HTTPScaledObject](t, `
metadata:
  name: shop
  namespace: team
  labels: {app.kubernetes.io/managed-by: kedify-http-agent}
  annotations:
    http.kedify.io/routing: none
    http.kedify.io/external-proxy-metric-key: shop
    http.kedify.io/external-proxy-sources: 10.0.0.0/8
    httpscaledobject.keda.sh/skip-scaledobject-creation: "true"
  ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: shop, uid: uid-1, controller: true}]
spec:
  hosts: [external-proxy.invalid]
  scaleTargetRef: {name: shop, apiVersion: apps/v1, kind: Deployment, service: shop, port: 1}
  replicas: {min: 1, max: 100}
  scalingMetric: {requestRate: {targetValue: 7, window: 1m, granularity: 1s}}
`)
	patch := desired.Convert(scaled, nil, address)
	converted := scaled.DeepCopy()
	converted.Spec.Triggers[0].Type = "external-push"
	for key, value := range map[string]string{
		"convertedFrom": "kedify-envoy-http", "httpScaledObject": "shop", "scalerAddress": address,
	} {
		converted.Spec.Triggers[0].Metadata[key] = value
		operation := desired.Operation{Op: "add", Path: "/spec/triggers/0/metadata/" + key, Value: value}
		if !hasOperation(patch, operation) {
			t.Errorf("the conversion %+v lacks %+v", patch, operation)
		}
	}
	for name, version := range map[string]*apis.ScaledObject{"unconverted": scaled, "converted": converted} {
		wants := desired.Desired(version, nil, address)
		if len(wants) != 1 || len(wants[0].Problems) > 0 {
			t.Fatalf("%s: %+v", name, wants)
		}
		if diff := cmp.Diff(want, wants[0].Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if changes := desired.Compare(version, wants, []*httpv1alpha1.HTTPScaledObject{want}); len(changes.Update) > 0 {
			t.Errorf("%s: the object changes again: %+v", name, changes.Update)
		}
	}
}

// hasOperation reports whether a patch contains an operation.
func hasOperation(patch []desired.Operation, want desired.Operation) bool {
	for _, operation := range patch {
		if cmp.Equal(operation, want) {
			return true
		}
	}
	return false
}

// TestExternalBecomesRouted changes the type of a trigger to kedify-http: the annotation is removed.
func TestExternalBecomesRouted(t *testing.T) {
	t.Parallel()
	before := desired.Desired(external(t, `{externalProxyMetricKey: shop, externalProxySources: 10.0.0.0/8}`), nil, address)
	routed := external(t, `{hosts: shop.test, service: shop, port: "80"}`)
	routed.Spec.Triggers[0].Type = "kedify-http"
	wants := desired.Desired(routed, nil, address)
	changes := desired.Compare(routed, wants, []*httpv1alpha1.HTTPScaledObject{before[0].Object})
	if len(changes.Update) != 1 || httpv1alpha1.IsUnrouted(changes.Update[0]) {
		t.Fatalf("%+v", changes)
	}
	surplus, err := desired.Surplus(before[0].Object, changes.Update[0])
	metadata, _ := surplus["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if value, isThere := annotations[httpv1alpha1.AnnotationRouting]; err != nil || !isThere || value != nil {
		t.Errorf("%v, %v", surplus, err)
	}
}

// TestExternalProblems: without the name of a cluster there is no object. Without the addresses of the proxies there is
// one, and a warning.
func TestExternalProblems(t *testing.T) {
	t.Parallel()
	for metadata, isMade := range map[string]bool{
		`{externalProxyMetricKey: shop}`:                 true,
		`{externalProxySources: 10.0.0.0/8}`:             false,
		`{externalProxyMetricKey: shop, targetValue: a}`: true,
	} {
		wants := desired.Desired(external(t, metadata), nil, address)
		if len(wants) != 1 || len(wants[0].Problems) == 0 || (wants[0].Object != nil) != isMade {
			t.Errorf("%s: %+v", metadata, wants)
		}
	}
}
